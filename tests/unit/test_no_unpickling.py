"""Nothing that came from a topic, a group member or a socket is ever unpickled or run: by the source, and by trying it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock import TopicPartition
from tests.harness.hostile import hostile_headers, payload
from tests.integration.topologies import all_that_is_shuffled
from tests.unit.spark.crash_world import Brokers, Form, Instance

SOURCE = Path(penstock.__file__).parent

# Modules that make objects, or run code, from bytes; what of them is harmless.
RUNS_CODE = {
    "pickle": {"dumps", "dump", "PickleError", "PicklingError"},
    "cloudpickle": {"dumps", "dump"},
    "pyspark.cloudpickle": {"dumps", "dump"},
    "penstock.spark.internals.cloudpickle": {"dumps", "dump"},
    "dill": set(),
    "marshal": {"dumps", "dump"},
    "shelve": set(),
    "jsonpickle": set(),
    "joblib": set(),
    "yaml": {"safe_load", "dump", "safe_dump"},
    "code": set(),
    "multiprocessing.connection": {"answer_challenge", "deliver_challenge"},
    "multiprocessing.managers": set(),
    "pyspark.serializers": {"NoOpSerializer", "pack_long"},
}
BUILT_IN = {"eval", "exec", "compile", "__import__"}

ALLOWED = {
    (
        "spark/worker/residency.py",
        "penstock.spark.internals.cloudpickle.loads",
    ): "the user's own code, which the driver sends with its functions",
    ("spark/internals.py", "pyspark.serializers.PickleSerializer"): "the numbers of rows, which the driver has just written",
}


def uses_of(tree: ast.Module) -> Iterator[str]:
    """What a module uses that could run code."""
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                modules[name.asname or name.name.partition(".")[0]] = name.name if name.asname else name.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                whole = f"{node.module}.{name.name}"
                if whole in RUNS_CODE:
                    modules[name.asname or name.name] = whole
                elif node.module in RUNS_CODE and name.name not in RUNS_CODE[node.module]:
                    yield whole
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            module = ast.unparse(node.value)
            first, _, rest = module.partition(".")
            module = ".".join(filter(None, (modules.get(first, ""), rest)))
            if module in RUNS_CODE and node.attr not in RUNS_CODE[module]:
                yield f"{module}.{node.attr}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BUILT_IN:
            yield node.func.id
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            yield "allow_pickle"


def test_should_use_nothing_that_runs_what_it_reads_but_where_there_is_a_reason() -> None:
    files = {path: path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py")}
    found = {(name, use) for path, name in files.items() for use in uses_of(ast.parse(path.read_text()))}
    assert found == set(ALLOWED)


@pytest.mark.parametrize(
    ("code", "use"),
    [
        ("import pickle\npickle.loads(b'')", "pickle.loads"),
        ("import pickle as p\np.Unpickler", "pickle.Unpickler"),
        ("from pickle import load as read", "pickle.load"),
        ("from pyspark import cloudpickle\ncloudpickle.loads", "pyspark.cloudpickle.loads"),
        ("import multiprocessing.connection\nmultiprocessing.connection.Listener", "multiprocessing.connection.Listener"),
        ("from pyspark.serializers import CPickleSerializer", "pyspark.serializers.CPickleSerializer"),
        ("eval('1')", "eval"),
        ("numpy.load(file, allow_pickle=True)", "allow_pickle"),
    ],
)
def test_should_find_what_would_run_code(code: str, use: str) -> None:
    assert list(uses_of(ast.parse(code))) == [use]


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("records", [5, 100])
def test_should_run_nothing_that_a_record_brings(records: int, form: Form, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    data = payload(mark)
    headers = hostile_headers(data)
    settings = {
        "deserialization.exception.handler": "log_and_continue",
        "errors.dead.letter.queue.topic.name": "dead",
    }
    brokers = Brokers.of(all_that_is_shuffled(), 2, "dead")
    for number in range(records):
        brokers.append("lines", number % 2, data, data, number, headers)
        brokers.append("numbers", number % 2, data, data, number, headers)
    for process in ("a", "b"):  # the second one restores everything
        instance = Instance(all_that_is_shuffled(), brokers, tmp_path / "state", process, settings, form)
        instance.run()
        instance.die()
    assert not mark.exists()
    assert len(brokers.values("audit")) == len(brokers.values("copies")) == len(brokers.values("dead")) == records
    assert brokers.values("counts")
    for topic in ("audit", "copies", "counts", "dead"):
        written = [r for p in range(2) for r in brokers.committed_records(TopicPartition(topic, p))]
        assert {record.headers[: len(headers)] for record in written} == {headers}
