"""One instance of a count by key, in a process of its own: tells when it runs, what it has and what it replayed.

Ends when its standard input does. Its arguments are those of `bench.Elastic`, which is the same for Kafka Streams.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from typing import Any

from penstock import (
    Consumed,
    Grouped,
    KafkaStreams,
    Materialized,
    Produced,
    Serdes,
    StateRestoreListener,
    StreamsBuilder,
    Topology,
)
from penstock.client.inside import inside


class Restored(StateRestoreListener):
    """Tells how many records of changelogs were read."""

    def on_batch_restored(self, topic_partition: Any, store_name: str, batch_end_offset: int, num_restored: int) -> None:
        tell("RESTORED", num_restored)


def tell(*words: Any) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def topology(source: str, sink: str, *, words: bool = False) -> Topology:
    """Counts keys, or words, which cross a repartition."""
    builder, string = StreamsBuilder(), Serdes.string()
    lines, by_text = builder.stream(source, Consumed(string, string)), Grouped(key_serde=string, value_serde=string)
    keyed = lines.flat_map_values(str.split).select_key(lambda _, word: word) if words else lines
    counts = keyed.group_by_key(by_text).count(Materialized("counts", string, Serdes.long()))
    counts.to_stream().to(sink, Produced(string, Serdes.long()))
    return builder.build()


def main(application: str, brokers: str, folder: str, source: str, sink: str, *settings: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    for noisy in ("kafka", "py4j"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    config: dict[str, Any] = {
        "application.id": application,
        "bootstrap.servers": brokers,
        "state.dir": folder,
        "processing.guarantee": "exactly_once_v2",
        "num.stream.threads": 1,
        "statestore.cache.max.bytes": 0,
        "spark.master": "local[2]",
        **dict(setting.split("=", 1) for setting in settings),
    }
    if not config["spark.master"].startswith("local"):
        config["task.spread"] = "always"  # so little load would stay together in one thread
        config["spark.python.daemon.module"] = "pyspark_penstock.daemon"  # executors run what is installed here
    words = config.pop("words", None) is not None
    streams = KafkaStreams(topology(source, sink, words=words), config)
    streams.set_global_state_restore_listener(Restored())
    streams.start()
    ended = threading.Event()
    threading.Thread(target=_until_the_end, args=(ended,), daemon=True).start()
    told: dict[str, tuple[Any, ...]] = {}
    while not ended.wait(0.1):
        if streams.failure is not None:
            raise streams.failure
        if not streams.state.is_running_or_rebalancing:
            continue
        threads = streams.metadata_for_local_threads()
        now = {
            "RUNNING": (True,) if streams.state.name == "RUNNING" else (),
            "TASKS": tuple(sorted(str(task.task_id) for thread in threads for task in thread.active_tasks)),
            "STANDBYS": tuple(sorted(str(task.task_id) for thread in threads for task in thread.standby_tasks)),
            "EXECUTORS": _executors(streams),
            "PLACES": _places(streams),
            "JVM": (inside(streams).spark_threads.jvm_pid,),
            "PROCESSED": _processed(streams) if words else (),
        }
        for what, words in now.items():
            if words != told.get(what, ()):
                told[what] = words
                if what != "RUNNING" or words:
                    tell(what, *words)
    streams.close(30_000)


def _until_the_end(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


def _processed(streams: KafkaStreams) -> tuple[int, ...]:
    """How many records tasks have processed, before and behind a repartition."""
    found = streams.metrics().items()
    totals = [m.metric_value for n, m in found if (n.name, n.group) == ("process-total", "stream-thread-metrics")]
    return (round(sum(totals)),)


def _executors(streams: KafkaStreams) -> tuple[str, ...]:
    """The executors that tasks run on, on a cluster."""
    tasks = inside(streams).tasks
    if not tasks:
        return ()
    threads, used = inside(streams).spark_threads.workers, set(tasks.values())
    return tuple(sorted({thread.executor for index, thread in threads.items() if index in used and thread.executor}))


def _places(streams: KafkaStreams) -> tuple[str, ...]:
    """The thread of each task and the executor that it is on, on a cluster."""
    tasks = inside(streams).tasks
    if not tasks:
        return ()
    threads = inside(streams).spark_threads.workers
    owners = {task: thread for task, thread in tasks.items() if thread in threads and threads[thread].executor}
    return tuple(sorted(f"{task}={thread}@{threads[thread].executor}" for task, thread in owners.items()))


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)
