"""Clocks and waiting limits in the source.

A component that keeps a reference to `time.monotonic` does not see the clock of a test: the test replaces `time.monotonic`,
and the reference still leads to the machine's clock. The two agree only on machines that have been up for long enough.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time", "time_ns"}
# Reads the clock twice for every store access, and uses only the difference.
HOT = "src/penstock/state/layers/metrics.py"


WITH_TIMEOUT = {"urlopen", "HTTPConnection", "communicate", "run", "list_topics", "create_connection", "wait", "wait_until"}


def _parsed(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))


def kept_clocks(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that use a clock function without calling it at once, or import one by name."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "time" and any(name.name in CLOCKS for name in node.names):
            yield node.lineno
        is_clock = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "time"
        if is_clock and node.attr in CLOCKS and id(node) not in called:
            yield node.lineno


@pytest.mark.parametrize(
    "text",
    [
        "def f(now=time.monotonic): ...",
        "now = now or time.monotonic",
        "field(default_factory=time.monotonic)",
        "from time import monotonic",
    ],
)
def test_should_recognise_a_clock_that_is_kept(text: str) -> None:
    assert list(kept_clocks(ast.parse(text))) == [1]


def test_should_accept_a_clock_that_is_read_where_it_is_named() -> None:
    assert list(kept_clocks(ast.parse("now = time.monotonic()\nnow = lambda: time.monotonic()"))) == []


def test_should_keep_no_clock_function_in_the_source() -> None:
    found = [f"{path}:{line}" for path, tree in _parsed("src") if path != HOT for line in kept_clocks(tree)]
    assert found == [], "call time.monotonic() where the time is needed, or inject a Clock"


def read_clocks(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that read a clock of the module `time`."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "time"
            and node.attr in CLOCKS
        ):
            yield node.lineno


def test_should_read_the_time_in_the_client_through_the_one_clock() -> None:
    assert list(read_clocks(ast.parse("import time\nnow = time.monotonic()\ntime.sleep(1)"))) == [2]
    found = [f"{path}:{line}" for path, tree in _parsed("src/penstock/client") for line in read_clocks(tree)]
    assert found == [], "read monotonic() or wall_time() of penstock/clock.py"


def literal_limits(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that wait for a number of seconds of their own, five or more."""

    def is_limit(node: ast.expr) -> bool:
        return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value >= 5

    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        waits = name in ("wait", "result", "join") and len(node.args) == 1 and is_limit(node.args[0])
        waits |= name == "wait_until" and len(node.args) > 2 and is_limit(node.args[2])
        named = name in (
            "urlopen",
            "HTTPConnection",
            "communicate",
            "run",
            "list_topics",
            "create_connection",
            "wait",
            "wait_until",
        )
        waits |= named and any(given.arg == "timeout" and is_limit(given.value) for given in node.keywords)
        if waits:
            yield node.lineno


def test_should_wait_in_tests_with_the_one_limit() -> None:
    programs = ("tests/soak", "tests/spark_versions/on_cluster.py", "tests/unit/test_clocks.py", "tests/unit/test_limits.py")
    found = [
        f"{path}:{line}" for path, tree in _parsed("tests") if not path.startswith(programs) for line in literal_limits(tree)
    ]
    assert found == [], "use LIMIT of tests/harness/waiting.py"
