"""An application with a Spark of its own, from start to end: `python -m tests.integration.short_life …`.

It counts, loses a worker, counts on, and ends as it should. What it saw it tells in a line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from penstock import KafkaStreams, QueryableStoreTypes, StoreQueryParameters
from tests.harness.kafka import wait_until
from tests.harness.sockets import listening
from tests.integration.helpers import workers_of
from tests.integration.topologies import count_by_key


def main(brokers: str, application: str, source: str, sink: str, folder: str) -> None:
    """Run until the standard input says that all is fed, and end."""
    config = {
        "application.id": application,
        "bootstrap.servers": brokers,
        "application.server": "127.0.0.1:0",
        "state.dir": folder,
        "num.stream.threads": 1,
        "spark.master": "local[2]",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
    }
    streams = KafkaStreams(count_by_key(source, sink), config)
    workers = workers_of(streams)
    streams.start()
    wait_for_count(streams, 1)
    spark = streams.store_dataframe("counts").sparkSession
    context = spark.sparkContext
    jvm: Any = type(context)._gateway
    told = {
        "jvm": listening(jvm.proc.pid),
        "driver": listening(os.getpid()),
        "authenticate": context.getConf().get("spark.authenticate"),
        "file": read_through_spark(context, Path(folder)),
    }
    os.kill(int(workers[-1].rpartition(":")[2]), signal.SIGKILL)
    print("killed", flush=True)
    sys.stdin.readline()
    wait_for_count(streams, 2)
    told["closed"] = streams.close(60_000)
    print(json.dumps(told))


def wait_for_count(streams: KafkaStreams, count: int) -> None:
    def counted() -> bool:
        if streams.failure is not None:
            raise streams.failure
        if streams.state.name != "RUNNING":
            return False
        try:
            store = streams.store(StoreQueryParameters("counts", QueryableStoreTypes.key_value_store()))
            return bool(store.get("a") == count)
        except Exception:  # noqa: BLE001 - it is being opened
            return False

    wait_until(counted, f"a is counted {count} times")


def read_through_spark(context: Any, folder: Path) -> str:
    """A file that executors get from the driver, over Spark's own connection."""
    file = folder / "note.txt"
    file.write_text("hello")
    context.addFile(str(file))

    def read(_: int) -> str:
        from pyspark import SparkFiles

        return Path(SparkFiles.get("note.txt")).read_text()

    found: str = context.parallelize([1], 1).map(read).first()
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
