"""WordCount as a user runs it on a cluster: a process of its own, and a module that executors do not have.

Started with the settings as JSON; tells about every batch in a line of JSON, answers questions that it is asked in lines of JSON,
and ends when its input does.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any

import wordshop  # from a zip that only this process has on its path

from penstock import (
    Consumed,
    Grouped,
    KafkaStreams,
    KeyQuery,
    Materialized,
    Produced,
    QueryableStoreTypes,
    Serdes,
    StandbyUpdateListener,
    StateQueryRequest,
    StoreQueryParameters,
    StreamsBuilder,
)
from penstock.client.inside import inside
from penstock.spark.driver.placement import executors
from penstock.spark.internals import known_executors, own_executor_id, placed_rows, split_place
from penstock.spark.messages import ThreadReport

TABLES: list[Any] = []


def topology(lines: str, counts: str, store: str) -> Any:
    text, number = Serdes.string(), Serdes.long()
    builder = StreamsBuilder()
    (
        builder.stream(lines, Consumed(text, text))
        .flat_map_values(wordshop.words)
        .group_by(wordshop.by_word, Grouped(key_serde=text, value_serde=text))
        .count(Materialized("counts", text, number, store_type=store))
        .to_stream()
        .to(counts, Produced(text, number))
    )
    return builder.build()


def tell(what: str, **details: Any) -> None:
    sys.stdout.write(json.dumps({"what": what, **details}) + "\n")  # in one piece: several threads tell
    sys.stdout.flush()


class StateReplicas(StandbyUpdateListener):
    """Tells how far copies are behind."""

    def on_batch_loaded(
        self, topic_partition: Any, store_name: str, task_id: Any, batch_end_offset: int, batch_size: int, current_end_offset: int
    ) -> None:
        tell("copied", partition=str(topic_partition), records=batch_size, lag=current_end_offset - batch_end_offset - 1)


def on_executor(context: Any, executor: str) -> Any:
    """One row on an executor."""
    return placed_rows(context, [place for place in executors(context) if split_place(place)[1] == executor])


def fail_on(context: Any, executor: str) -> str:
    """Have tasks of a job fail on an executor until Spark excludes it."""

    def fail(_: Any) -> None:
        if own_executor_id() == executor:
            raise ValueError("a task of a user's job fails here")

    while known_executors(context)[executor].refusal == "":
        on_executor(context, executor).foreach(fail)
        time.sleep(0.1)
    return "excluded"


def answer(streams: KafkaStreams, question: dict[str, Any]) -> None:
    """Read the state in one of the ways there are."""
    ask, found = question["ask"], None
    try:
        if ask == "server":
            found = str(streams.server_host)
        elif ask == "stays":
            jobs = inside(streams).session.context._jsc.sc().statusStore().jobsList(None)
            told = (jobs.apply(number).description() for number in range(jobs.size()))
            found = sum("turn after turn" in text.get() for text in told if text.isDefined())
        elif ask == "fail on":
            found = fail_on(inside(streams).session.context, question["executor"])
        elif ask == "occupy":
            context = inside(streams).session.context
            on_executor(context, question["executor"]).foreach(lambda _: time.sleep(question["seconds"]))
            found = "done"
        elif ask == "listeners":
            found = inside(streams).listening
        elif ask == "store":
            view = streams.store(
                StoreQueryParameters("counts", QueryableStoreTypes.key_value_store(), stale_stores=question["stale"])
            )
            with view.all() as entries:
                found = dict(entries)
        elif ask == "query":
            results = streams.query(StateQueryRequest.in_store("counts").with_query(KeyQuery(question["key"]))).partition_results
            found = {partition: result.result for partition, result in results.items()}
        elif ask == "table":
            if not TABLES:  # read again and again, wherever its state goes
                TABLES.append(streams.store_dataframe("counts"))
            found = {row.key: row.value for row in TABLES[0].collect()}
    except Exception as exc:  # noqa: BLE001 - the test sees it
        found = f"{type(exc).__name__}: {exc}"[:4_000]
    tell("answer", found=found)


def tell_batches(reports: Mapping[int, ThreadReport]) -> None:
    """Tell of each batch: how many records it had, how long it took, and where its thread is."""
    for thread, report in reports.items():
        for batch in report.batches:
            place = {thread: [report.executor, report.worker]}
            tell("turn", records=batch.records, seconds=round(batch.took, 3), threads=place)


def main(config: dict[str, Any], topics: list[str], store: str, add_py_file: str | None) -> None:
    spark = None
    if add_py_file is not None:
        from penstock.spark.driver.session import make_session

        spark = make_session("given", {key: config.pop(key) for key in list(config) if key.startswith("spark.")})
        spark.sparkContext.addPyFile(add_py_file)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    for noisy in ("kafka", "py4j"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    streams = KafkaStreams(topology(*topics, store), config, spark=spark)
    streams.set_state_listener(lambda new, _: tell("state", state=new.name))
    streams.set_standby_update_listener(StateReplicas())
    inside(streams).watch_restores(
        lambda progress, what: tell(
            "restored" if what == "end" else what,
            store=progress.store,
            task=str(progress.task_id),
            start=progress.start,
            restored=progress.restored,
        )
    )
    inside(streams).watch_reports(tell_batches)
    streams.start()
    for line in sys.stdin:
        answer(streams, json.loads(line))
    streams.close(60_000)
    tell("end", failure=str(streams.failure) if streams.failure else None)
    if spark is not None:
        spark.stop()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
