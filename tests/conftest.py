"""Fixtures of the tests that need a real broker and Spark: one broker and one session for all of them."""

from __future__ import annotations

import os
import random
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.harness.waiting import LIMIT

# Workers of Spark inherit it: each of the hundreds that the tests start would compile the library anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# How long an example takes says more about the machine than about the code.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")

collect_ignore = ["harness/apps"]  # programs that tests start, with a path of their own

_NEED_KAFKA_OR_SPARK = ("behaviour", "faults", "integration", "moving", "spark_versions")
_CORE_TESTS = Path(__file__).with_name("core_tests.txt")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that need a broker or Spark: they run in one process and share one broker and one session.

    Those of `core_tests.txt` are part of `make test`.
    Of tests that are `sampled(n)` one of n runs every time, always the same one; the slow suite runs all of them.
    `PENSTOCK_TEST_ORDER` is the seed of a random order.
    """
    here, core = Path(__file__).parent, set(_CORE_TESTS.read_text(encoding="utf-8").splitlines())
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and (unknown := core - {item.nodeid for item in items}):
        raise pytest.UsageError(f"{_CORE_TESTS.name} names tests that do not exist: {', '.join(sorted(unknown))}")
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled is not None and zlib.crc32(item.name.encode()) % sampled.args[0]:
            item.add_marker(pytest.mark.slow)
        if here in item.path.parents and item.path.relative_to(here).parts[0] in _NEED_KAFKA_OR_SPARK:
            item.add_marker(pytest.mark.integration)
        if item.nodeid in core:
            item.add_marker(pytest.mark.core)
    if "PENSTOCK_TEST_ORDER" in os.environ:
        random.Random(os.environ["PENSTOCK_TEST_ORDER"]).shuffle(items)


@pytest.fixture(scope="session")
def kafka() -> Iterator[Any]:
    """A broker, seen by ordinary clients."""
    from penstock import DevBroker
    from tests.harness.kafka import Kafka

    broker = DevBroker(overrides={"broker.rack": "rack-1"}).start(300)
    yield Kafka(broker.bootstrap_servers)
    broker.stop()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A Spark session with two cores, given to every application of the tests."""
    from penstock.spark.driver.session import make_session

    session = make_session("penstock-tests", {"spark.master": "local[2]"})
    yield session
    session.stop()


@pytest.fixture
def run(kafka: Any, spark: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Start applications: `run(topology, {"application.id": ...})`; all are closed at the end."""
    from penstock import KafkaStreams

    with ExitStack() as stack:

        def start(topology: Any, config: Mapping[str, Any], *, wait: bool = True, on: Any = None, **callbacks: Any) -> Any:
            streams = KafkaStreams(topology, application_config(kafka, tmp_path, config), spark=spark if on is None else on)
            for name, callback in callbacks.items():
                getattr(streams, name)(callback)
            stack.callback(streams.close, 60_000)
            streams.start()
            if wait:
                wait_until_running(streams)
            return streams

        yield start


def application_config(kafka: Any, folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings tests run with, under the test's own."""
    return {
        "bootstrap.servers": kafka.bootstrap_servers,
        "state.dir": str(folder / "state"),
        "commit.interval.ms": 20,
        "num.stream.threads": 1,
        "statestore.cache.max.bytes": 0,
        **config,
    }


def wait_until_running(streams: Any, timeout: float = LIMIT) -> None:
    """Until the application runs; its failure where it does not."""
    from tests.harness.kafka import wait_until

    wait_until(lambda: streams.failure or streams.state.name in ("RUNNING", "ERROR"), "the application runs", timeout)
    if streams.failure is not None:
        raise AssertionError(f"the application failed: {streams.failure}") from streams.failure
