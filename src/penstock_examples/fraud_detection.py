"""Fraud detection: a card that pays in one country and draws cash in another within ten minutes.

The two streams are joined per card; a processor collects what is found and reports each card once a minute (of the
records' own time), however often it was used.
Topics: `payments`, `withdrawals` (card -> {"country", "amount"}) -> `fraud-reports` (card -> {"cases", "amount"}).
"""

from datetime import timedelta
from typing import Any

from penstock import (
    Consumed,
    JoinWindows,
    KeyValueStore,
    Processor,
    ProcessorContext,
    Produced,
    PunctuationType,
    Record,
    Serdes,
    StreamJoined,
    StreamsBuilder,
    Topology,
)
from penstock import Stores as stores

Payment = dict[str, Any]


class ReportOncePerMinute(Processor[str, int, str, dict[str, int]]):
    """Adds up the cases of each card; every minute it writes a report for each and starts over."""

    stores = [stores.key_value_store_builder(stores.persistent_key_value_store("open-cases"), Serdes.string(), Serdes.json())]  # noqa: RUF012

    def init(self, context: ProcessorContext[str, dict[str, int]]) -> None:
        self.context = context
        self.cases: KeyValueStore[str, dict[str, int]] = context.get_state_store("open-cases")
        context.schedule(timedelta(minutes=1), PunctuationType.STREAM_TIME, self.report)

    def process(self, record: Record[str, int]) -> None:
        case = self.cases.get(record.key) or {"cases": 0, "amount": 0}
        self.cases.put(record.key, {"cases": case["cases"] + 1, "amount": case["amount"] + record.value})

    def report(self, timestamp: int) -> None:
        with self.cases.all() as cases:
            for card, case in list(cases):
                self.context.forward(Record(card, case, timestamp))
                self.cases.delete(card)


def topology() -> Topology:
    builder = StreamsBuilder()
    text, json = Serdes.string(), Serdes.json()
    payments = builder.stream("payments", Consumed(text, json, name="payments"))
    withdrawals = builder.stream("withdrawals", Consumed(text, json, name="withdrawals"))
    pairs = payments.join(
        withdrawals,
        lambda paid, drawn: (paid, drawn),
        JoinWindows(timedelta(minutes=10), grace=timedelta(minutes=1)),
        StreamJoined(text, json, json, name="same-card", store_name="recent"),
    )
    abroad = pairs.filter(lambda card, pair: pair[0]["country"] != pair[1]["country"], name="other-country")
    amounts = abroad.map_values(lambda pair: pair[0]["amount"] + pair[1]["amount"], name="amount")
    amounts.process(ReportOncePerMinute, name="report").to("fraud-reports", Produced(text, json))
    return builder.build()
