"""How the end of a SparkContext shows, whoever has ended it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from penstock.spark.internals import has_ended


def context_that(answers: bool | Exception) -> Any:
    """A context whose JVM answers, or does not."""

    def is_stopped() -> bool:
        if isinstance(answers, Exception):
            raise answers
        return answers

    return SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=is_stopped)))


@pytest.mark.parametrize("answers", [True, Py4JError("ended"), Py4JNetworkError("empty"), ConnectionRefusedError(111, "refused")])
def test_should_take_a_jvm_that_does_not_answer_for_ended(answers: bool | Exception) -> None:
    assert has_ended(context_that(answers))


def test_should_tell_a_context_that_runs_from_one_that_was_stopped_here() -> None:
    assert not has_ended(context_that(False))
    assert has_ended(SimpleNamespace(_jsc=None))  # type: ignore[arg-type]
    assert has_ended(None)
