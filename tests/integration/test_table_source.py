"""Stores as a data source of Spark: from servers with a token, which need no broker, and from an application as a whole."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from pyspark_penstock import live_table
from tests.harness.kafka import Kafka, unique, wait_until
from tests.harness.waiting import LIMIT
from tests.integration.helpers import texts, topics
from tests.integration.query_topologies import all_kinds
from tests.unit.client.web.served import Served
from tests.unit.client.web.served_twice import served_twice
from tests.unit.client.web.test_server import KEYS

pytestmark = pytest.mark.integration

COUNTS = {(key, number) for number, key in enumerate(KEYS)}


class Reads(list[tuple[str, dict[str, Any]]]):
    """What the servers were asked for of tables: addresses and reads."""

    def watch(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        answers = served.service._web._answers  # type: ignore[union-attr]
        table = answers.table

        def watched(name: str, parameters: Any) -> Any:
            self.append((f"{served.address}/{parameters['partition']}", json.loads(parameters.get("read", "{}"))))
            return table(name, parameters)

        monkeypatch.setattr(answers, "table", watched)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Served]]:
    with served_twice(tmp_path_factory.mktemp("two")) as both:
        yield both


@pytest.fixture
def reads(two: tuple[Served, Served], monkeypatch: pytest.MonkeyPatch) -> Reads:
    reads = Reads()
    for served in two:
        reads.watch(served, monkeypatch)
    return reads


@pytest.fixture
def options(two: tuple[Served, Served], tmp_path: Any) -> dict[str, str]:
    token = tmp_path / "token"
    token.write_text("secret")
    return {"application.server": two[0].address, "application.server.token.file": str(token)}


def test_should_be_a_format_that_sql_knows(spark: Any, options: dict[str, str], reads: Reads, tmp_path: Any) -> None:
    frame = spark.read.format("penstock").options(**options).option("store", "counts").load()
    assert frame.columns == ["key", "value", "timestamp"]
    assert {(row.key, row.value) for row in frame.collect()} == COUNTS
    assert len(reads) == 3

    told = ", ".join(f"'{name}' '{value}'" for name, value in options.items())
    reads.clear()
    spark.sql(f"create temporary view one using penstock options ({told}, store 'counts', key 'k007')")
    spark.sql(f"create database live location '{tmp_path}'")
    spark.sql(f"create table live.counts using penstock options ({told}, store 'counts')")
    try:
        assert [tuple(row) for row in spark.sql("select key, value from one").collect()] == [("k007", 7)]
        assert [read for _, read in reads] == [{"keys": ["k007"]}]
        joined = "select count(*) from live.counts a join live.counts b on a.key = b.key where a.value < 10 and b.value > 5"
        assert spark.sql(joined).first()[0] == 4
    finally:
        spark.sql("drop database live cascade")
        spark.catalog.dropTempView("one")


def test_should_read_only_what_a_query_needs(spark: Any, options: dict[str, str], reads: Reads) -> None:
    counts = live_table(spark, "counts", options)

    def asked(frame: Any) -> list[tuple[Any, ...]]:
        reads.clear()
        return sorted(tuple(row) for row in frame.collect())

    assert asked(counts.where("key = 'k007'").select("value")) == [(7,)]
    assert [read for _, read in reads] == [{"keys": ["k007"]}]  # one key, of one partition
    assert asked(counts.where("key in ('k001', 'k002', 'no') and value > 1").select("key")) == [("k002",)]
    assert sorted(key for _, read in reads for key in read["keys"] if key != "no") == ["k001", "k002"]
    assert len(asked(counts.where("key >= 'k100' and key < 'k103'"))) == 3
    assert [read for _, read in reads] == [{"low": "k100", "high": "k103"}] * 3
    assert len(asked(counts.where("key like 'k10%'"))) == 10
    assert [read for _, read in reads] == [{"low": "k10", "high": "k11"}] * 3

    # Each use of a table reads what it needs itself.
    assert asked(counts.where("key = 'k001'").union(counts.where("key = 'k002'")).select("value")) == [(1,), (2,)]
    assert counts.count() == 250
    both = counts.where("key = 'k003'").alias("a").join(counts.alias("b"), "timestamp")
    assert both.count() == 1

    windows = live_table(spark, "windows", options).where("key = 'a/b ü' and window_start between 2000 and 2999")
    assert asked(windows.select("window_start", "value")) == [(2000, 2000)]
    assert [read for _, read in reads] == [{"keys": ["a/b ü"], "start_low": 2000, "start_high": 2999}]
    assert asked(live_table(spark, "numbers", options).where("key < 0").select("key")) == [(-7,)]


def test_should_show_no_secret_and_say_what_is_wrong(spark: Any, two: tuple[Served, Served], capfd: Any) -> None:
    options = {"application.server": two[0].address, "application.server.token": "secret"}
    frame = live_table(spark, "counts", options)
    for mode in ("extended", "formatted", "cost", "codegen"):
        frame.where("key = 'k001'").explain(mode=mode)
    plan = frame._jdf.queryExecution().toString()
    assert "secret" not in capfd.readouterr().out + plan
    with pytest.raises(Exception, match="401") as wrong, contextlib.ExitStack():
        spark.read.format("penstock").options(**{**options, "application.server.token": "hidden-word"}, store="counts").load()
    assert "hidden-word" not in str(wrong.value)
    with pytest.raises(Exception, match="no such store is registered in the topology; there are: counts"):
        spark.read.format("penstock").options(**options, store="nothing").load()


@pytest.mark.slow
def test_should_be_read_by_another_process_and_in_its_own_only_by_what_is_asked_for(
    kafka: Kafka, run: Any, spark: Any, tmp_path: Any
) -> None:
    (source,) = topics(kafka, "in", partitions=2)
    kafka.feed(source, texts(("a", "x"), ("b", "y"), ("a", "z")))
    server = {"application.server": "localhost:0", "application.server.token": "word-of-the-test"}
    streams = run(all_kinds(source), {"application.id": unique("elsewhere"), **server})
    counts = streams.store_dataframe("counts")
    wait_until(lambda: {(row.key, row.value) for row in counts.collect()} == {("a", 2), ("b", 1)}, "all is counted")

    # In its own process too a filter reaches the store, for each use of the table on its own.
    assert sorted(row.value for row in counts.where("key = 'a'").union(counts.where("key = 'b'")).collect()) == [1, 2]
    assert counts.count() == 2
    scan = counts.where("key = 'a'")._jdf.queryExecution().executedPlan().toString()
    assert "penstock counts" in scan
    assert "word-of-the-test" not in scan

    token = tmp_path / "token"
    token.write_text("word-of-the-test")
    command = [sys.executable, "-m", "tests.integration.table_reader", str(streams.server_host), str(token)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert told.returncode == 0, told.stderr[-3000:]
    found = json.loads(next(line for line in told.stdout.splitlines() if line.startswith("found ")).removeprefix("found "))
    assert found == {"counts": {"a": 2, "b": 1}, "windows": [["a", 2]]}
