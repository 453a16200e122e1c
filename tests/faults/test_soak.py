"""The short form of the soak: five minutes of everything on one machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.plan import Setup, draw
from tests.soak.run import Run


@pytest.mark.slow
def test_should_lose_repeat_and_reorder_nothing_through_five_minutes_of_faults(tmp_path: Path) -> None:
    applications = ("word-count", "sessions", "left-join", "foreign-key", "timers", "growing")
    plan = draw(24, 5, Setup(brokers=3, applications=applications), pause=6.0)
    with Run(plan, tmp_path / "soak") as run:
        outcome = run.play()
    assert not outcome.findings, "\n".join([*plan.lines(), *map(str, outcome.findings[:20]), outcome.words])
    assert len(outcome.done) > 20
