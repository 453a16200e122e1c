"""Bank accounts, with the writing and the reading side apart (CQRS).

The topology is the writing side: transfers become balances and a count of movements per hour. The reading side is the
application itself: any instance answers `GET /api/stores/balances/keys/ada` for any account, wherever its state is, and Spark SQL
joins both stores with a file of customers.

Topics: `transfers` (account -> amount in cents). Two instances on one machine, each with a copy of the other's state:

    python -m penstock_examples.accounts localhost:9092 localhost:8081 /tmp/accounts-1 num.standby.replicas=1
    python -m penstock_examples.accounts localhost:9092 localhost:8082 /tmp/accounts-2 num.standby.replicas=1
    curl localhost:8082/api/stores/balances/keys/ada

When one of them is killed, the other takes its accounts over. Until then it cannot know what became of them: it answers with
503, or, where `?stale=true` allows it, with what its copy has.
"""

import sys
import time
from datetime import timedelta
from typing import Any

from penstock import Consumed, Grouped, KafkaStreams, Materialized, Serdes, StreamsBuilder, TimeWindows, Topology

HOURS = TimeWindows(timedelta(hours=1), grace=timedelta(minutes=5))


def add(account: str, amount: int, balance: int) -> int:
    return balance + amount


def topology() -> Topology:
    builder = StreamsBuilder()
    text, cents = Serdes.string(), Serdes.long()
    by_account = builder.stream("transfers", Consumed(text, cents)).group_by_key(Grouped("by-account", text, cents))
    by_account.aggregate(int, add, Materialized("balances", text, cents))
    by_account.windowed_by(HOURS).count(Materialized("movements", text, cents, retention=timedelta(days=2)))
    return builder.build()


def report(streams: KafkaStreams, customers: str) -> list[tuple[Any, ...]]:
    """Name, balance and movements of each customer: two live stores joined with a Parquet file (account, name)."""
    balances, movements = streams.store_dataframe("balances"), streams.store_dataframe("movements")
    known = balances.sparkSession.read.parquet(customers)
    moves = movements.groupBy("key").sum("value").withColumnRenamed("sum(value)", "movements")
    rows = known.join(balances, known.account == balances.key).join(moves, known.account == moves.key)
    return sorted(tuple(row) for row in rows.select("name", balances.value, "movements").collect())


def main(brokers: str, server: str, state: str, *settings: str) -> None:
    config = {
        "application.id": "accounts",
        "bootstrap.servers": brokers,
        "application.server": server,
        "state.dir": state,
        "processing.guarantee": "exactly_once_v2",
        **dict(setting.split("=", 1) for setting in settings),
    }
    with KafkaStreams(topology(), config) as streams:
        streams.start()
        while True:
            time.sleep(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
