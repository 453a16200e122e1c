"""Each private name of Spark that penstock uses, tried alone: on the Spark that is installed, and on others by `make
test-spark-versions`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.protocol import Py4JError

from penstock.spark import internals
from tests.harness.cluster import Cluster
from tests.harness.kafka import wait_until
from tests.harness.waiting import LIMIT

pytestmark = pytest.mark.slow  # they are for `make test-spark-versions`, and for `make test-all`

ON_CLUSTER = Path(__file__).with_name("on_cluster.py")
JVM_ALONE = Path(__file__).with_name("jvm_alone.py")


@pytest.fixture
def context(spark: Any) -> Iterator[Any]:
    module = sys.modules[__name__]
    internals.cloudpickle.register_pickle_by_value(module)  # the workers do not have the tests on their path
    yield spark.sparkContext
    internals.cloudpickle.unregister_pickle_by_value(module)


def run_program(program: Path, *arguments: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """What a program of its own tells: it has a Spark of its own, or none."""
    command = [sys.executable, str(program), *arguments]
    done = subprocess.run(
        command, env=environment or dict(os.environ), capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def worker_facts(rows: Iterator[Any]) -> Iterable[bytes]:
    """What a worker knows of itself."""
    found = [row if isinstance(row, int) else len(row) for row in rows]
    main = sys.modules["__main__"].__spec__
    facts = {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "group": os.getpgid(0),
        "daemon": internals.own_daemon_id(),
        "own": os.environ.get("PENSTOCK_TEST"),
        "rows": found,
        "main": None if main is None else main.name,
    }
    yield json.dumps(facts).encode()


def facts_in(context: Any, environment: Any, rows: Any = None, function: Any = worker_facts, partition: int = 0) -> Any:
    rows = internals.placed_rows(context, [None]) if rows is None else rows
    java_rdd = internals.bytes_in_environment(rows, function, environment)
    return json.loads(internals.first_of_partition(context, java_rdd, partition))


def test_should_reach_the_drivers_jvm(context: Any) -> None:
    jvm = internals.jvm_of(context)
    assert int(jvm.java.lang.Integer.parseInt("7")) == 7
    assert internals.running_gateway() is not None
    assert internals.active_context() is context
    assert (Path(internals.spark_home()) / "jars").is_dir()
    internals.connect_to_jvm()
    assert internals.jvm_of(context) is jvm


def test_should_start_a_jvm_for_the_resolver_forget_one_that_has_ended_and_notice_one_that_was_killed(tmp_path: Path) -> None:
    told = run_program(JVM_ALONE, str(tmp_path))
    true = dict.fromkeys(("ended", "second", "killed", "anew", "cut off"), True)
    assert told == {"jars": ["javax.inject_javax.inject-1.jar"], **true}


def test_should_give_rows_and_take_bytes_as_they_are(context: Any) -> None:
    rows = internals.placed_rows(context, [None, None, None])
    assert rows.getNumPartitions() == 3
    assert rows.collect() == [0, 1, 2]
    assert internals.yielding_bytes(rows, lambda numbers: (b"\x80%d" % n for n in numbers)).collect() == [
        b"\x800",
        b"\x801",
        b"\x802",
    ]


def test_should_run_functions_in_a_worker_of_their_own_environment(context: Any) -> None:
    before = dict(context.environment)
    first, second = (internals.worker_environment(context, {"PENSTOCK_TEST": name}) for name in "ab")
    a, again, b = facts_in(context, first), facts_in(context, first), facts_in(context, second)
    assert (a["own"], b["own"]) == ("a", "b")
    assert again == a  # always the same worker
    assert b["pid"] != a["pid"]
    assert b["parent"] != a["parent"]
    assert context.environment == before
    anybody = [json.loads(facts) for facts in internals.yielding_bytes(context.parallelize([0], 1), worker_facts).collect()]
    assert anybody[0]["own"] is None
    assert anybody[0]["pid"] not in (a["pid"], b["pid"])


def test_should_keep_the_worker_when_the_sessions_environment_changes(context: Any) -> None:
    environment = internals.worker_environment(context, {"PENSTOCK_TEST": "a"})
    before = facts_in(context, environment)
    context.environment["PENSTOCK_OTHER"] = "1"
    try:
        assert facts_in(context, environment) == before
    finally:
        del context.environment["PENSTOCK_OTHER"]


def _with_ballast(ballast: bytes, rows: Iterator[Any]) -> Iterable[bytes]:
    list(rows)
    yield json.dumps(len(ballast)).encode()


def test_should_send_functions_of_many_megabytes(context: Any) -> None:
    environment = internals.worker_environment(context, {"PENSTOCK_TEST": "a"})
    assert facts_in(context, environment, function=partial(_with_ballast, os.urandom(3 << 20))) == 3 << 20


def test_should_fork_workers_from_penstocks_daemon_which_leads_their_process_group(context: Any) -> None:
    facts = facts_in(context, internals.worker_environment(context, {"PENSTOCK_TEST": "a"}))
    assert facts["main"] == "pyspark_penstock.daemon"
    assert facts["group"] == facts["parent"]


def test_should_stop_the_daemon_of_an_environment_and_start_it_again(context: Any) -> None:
    environment = internals.worker_environment(context, {"PENSTOCK_TEST": "stopped"})
    kept = facts_in(context, internals.worker_environment(context, {"PENSTOCK_TEST": "kept"}))
    facts = facts_in(context, environment)
    assert facts["daemon"] == facts["parent"]
    assert internals.stop_workers(context, "PENSTOCK_TEST", "stopped") == 1
    wait_until(lambda: not Path(f"/proc/{facts['parent']}/exe").exists(), "the daemon has ended")
    wait_until(lambda: not Path(f"/proc/{facts['pid']}/exe").exists(), "its worker has ended")
    assert internals.stop_workers(context, "PENSTOCK_TEST", "nobody") == 0
    again = facts_in(context, environment)
    assert again["parent"] != facts["parent"]
    assert facts_in(context, internals.worker_environment(context, {"PENSTOCK_TEST": "kept"})) == kept
    assert internals.stop_workers(context, "PENSTOCK_TEST", "stopped") == 1


def test_should_end_the_worker_of_a_job_that_is_cancelled_without_an_interrupt(context: Any, tmp_path: Path) -> None:
    def stuck(rows: Iterator[Any]) -> Iterable[bytes]:
        facts = tmp_path / "part"
        facts.write_bytes(b"".join(worker_facts(rows)))
        facts.rename(tmp_path / "facts")
        time.sleep(3600)
        yield b""

    def run() -> None:
        context.setJobGroup("stuck", "a job that does not return")
        facts_in(context, internals.worker_environment(context, {"PENSTOCK_TEST": "stuck"}), function=stuck)

    with ThreadPoolExecutor(1) as thread:
        job = thread.submit(run)
        wait_until((tmp_path / "facts").exists, "the job runs")
        facts = json.loads((tmp_path / "facts").read_text())
        assert internals.group_runs(context, "stuck")
        assert not internals.group_runs(context, "another")
        assert "stuck" not in internals.groups_waiting(context)
        assert not internals.anybody_waits(context)
        context.cancelJobGroup("stuck")
        with pytest.raises(Py4JError):
            job.result(LIMIT)
    wait_until(lambda: not internals.group_runs(context, "stuck"), "Spark has no task of it any more")
    assert not Path(f"/proc/{facts['pid']}/exe").exists()
    assert Path(f"/proc/{facts['parent']}/exe").exists(), "its daemon makes the next one"


def test_should_know_whether_tasks_of_anybody_wait_for_a_core(context: Any) -> None:
    with ThreadPoolExecutor(1) as thread:
        job = thread.submit(context.parallelize(range(32), 32).map(lambda _: time.sleep(0.1)).count)
        wait_until(lambda: internals.anybody_waits(context), "more tasks than cores")
        job.result(LIMIT)
    wait_until(lambda: not internals.anybody_waits(context), "nobody waits any more")


def test_should_pickle_functions_of_the_main_module() -> None:
    number = 41
    assert internals.cloudpickle.loads(internals.cloudpickle.dumps(lambda: number + 1))() == 42


def test_should_place_rows_on_executors_that_know_their_id() -> None:
    with Cluster(workers=2) as cluster:
        environment = {**cluster.environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        told = run_program(ON_CLUSTER, json.dumps(cluster.settings), environment=environment)
    assert set(told["executors"]) == {"0", "1"}
    assert set(told["executors"].values()) == {"127.0.0.1"}
    assert told["placed"] == ["1", "0", "1", "0"]
    assert told["threads"] == ["0", "1", "0"]
    assert told["cancelled"]["error"] == "the job of cancelled was ended: it took too long"
    assert (told["cancelled"]["gone"], told["cancelled"]["another"]) == (True, True)
    assert told["version"] == pyspark.__version__
