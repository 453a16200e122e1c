"""Two instances of one application: when one is killed, the other does its work."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import State
from tests.harness.kafka import Kafka, unique, wait_until
from tests.integration.helpers import counts, keyed, owned, topics, up_to
from tests.integration.topologies import count_by_key

Run = Callable[..., Any]
_ROOT = Path(__file__).parents[2]


def start_instance(arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
    """An instance in a process of its own, with a session of Spark of its own."""
    with log.open("wb") as lines:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.integration.instance", *arguments],
            stdin=subprocess.PIPE,
            stdout=lines,
            stderr=lines,
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": f"{_ROOT / 'src'}{os.pathsep}{_ROOT}"},
        )


def kill(instance: subprocess.Popen[bytes]) -> None:
    """kill -9."""
    instance.kill()
    instance.wait()
    instance.stdin.close() if instance.stdin else None


@pytest.mark.slow  # a session of Spark of its own, and the session timeout of the group
def test_should_take_over_from_an_instance_that_is_killed(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out", partitions=2)
    application, keys = unique("killed"), "abcdefgh"
    arguments = [kafka.bootstrap_servers, application, source, out, str(tmp_path / "first")]
    first = start_instance(arguments, tmp_path / "first.log")
    try:
        kafka.feed(source, keyed(keys))
        assert counts(kafka, out, 8) == up_to(**dict.fromkeys(keys, 1))
        config = {
            "application.id": application,
            "processing.guarantee": "exactly_once_v2",
            "state.dir": str(tmp_path / "second"),
            "consumer.session.timeout.ms": 6_000,
        }
        second = run(count_by_key(source, out), config)
        wait_until(lambda: len(owned(second)) == 1, "each has one task")
        kafka.feed(source, keyed(keys))
        assert counts(kafka, out, 16) == up_to(**dict.fromkeys(keys, 2))
    finally:
        kill(first)
    kafka.feed(source, keyed(keys))
    assert counts(kafka, out, 24) == up_to(**dict.fromkeys(keys, 3))
    assert len(owned(second)) == 2
    assert second.state is State.RUNNING
