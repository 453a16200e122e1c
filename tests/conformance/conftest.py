"""The original runs once per session, in one JVM."""

from __future__ import annotations

import fcntl
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.java_twin import JavaTwin, JavaUnavailableError, build


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaTwin]:
    """Kafka Streams itself; the tests are skipped where it cannot be built."""
    with (Path(__file__).parent / "java" / "pom.xml").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test process may be building it
        try:
            classes = build()
        except JavaUnavailableError as reason:
            pytest.skip(str(reason))
    twin = JavaTwin(classes, tmp_path_factory.mktemp("kafka-streams"))
    yield twin
    twin.close()


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Late and bad records are fed on purpose: their warnings would bury the one difference that counts."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
