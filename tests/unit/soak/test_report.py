"""The page and the picture of runs that were kept."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from tests.soak.plan import Setup, draw
from tests.soak.report import keep, write_page
from tests.soak.run import Outcome
from tests.soak.truth import Finding, Kind


def outcome(seed: int, minutes: int, wrong: bool = False) -> Outcome:
    plan = draw(seed, minutes, Setup())
    made = Outcome(plan, minutes=minutes, verified={"records in": 10, "results": 20}, queries={"answered": 3, "refused": 1})
    made.done = [(float(at), fault.kind) for at, fault in enumerate(plan.faults)]
    made.samples = [{"minute": float(at), "driver MB": 300.0, "threads of JVM": 90.0 + at} for at in range(minutes)]
    if wrong:
        made.findings = [Finding(Kind.LOSS, "stateless 'k'", "1 of 2 are missing")]
    return made


def test_should_add_up_all_runs_that_were_kept(tmp_path: Path) -> None:
    first, second = outcome(1, 30), outcome(2, 5, wrong=True)
    keep(first, tmp_path)
    keep(second, tmp_path)
    page = write_page(tmp_path)
    assert (tmp_path / "soak.md").read_text() == page
    assert f"**{len(first.done) + len(second.done):,} faults** in 2 runs of 35 minutes" in page
    assert "40 results of 20 records" in page
    assert "loss: stateless 'k': 1 of 2 are missing" in page
    assert "too short to tell" in page
    assert "| kill worker |" in page


def test_should_draw_bars_and_lines(tmp_path: Path) -> None:
    keep(outcome(1, 30), tmp_path)
    write_page(tmp_path)
    picture = ElementTree.fromstring((tmp_path / "soak.svg").read_text())
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}polyline"))) == 2
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}rect"))) > 10


def test_should_write_a_page_of_nothing(tmp_path: Path) -> None:
    assert "**0 faults** in 0 runs" in write_page(tmp_path)
