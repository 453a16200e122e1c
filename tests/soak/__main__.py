"""`python -m tests.soak`: applications of all kinds under load, faults of all kinds, and a page about it in `bench/results`.

A run is drawn from its seed, printed before it begins, and can be given back with `--plan`. With several runs the time is shared
among them, each with a set-up of its own.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.soak.applications import APPLICATIONS
from tests.soak.plan import CLUSTER, FORMATS, GUARANTEES, LOCAL, Kinds, Plan, Setup, draw, draw_each
from tests.soak.report import keep, write_page
from tests.soak.run import Outcome, Run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("SOAK_MINUTES") or 60))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SOAK_SEED") or 1))
    parser.add_argument("--runs", type=int, default=0, help="how many set-ups share the time; one for each 15 minutes by itself")
    parser.add_argument("--pause", type=float, default=6.0, help="seconds between two faults, on average")
    parser.add_argument("--at-most", type=float, default=math.inf, help="minutes by the clock after which a run ends")
    parser.add_argument("--plan", type=Path, help="a plan that was printed, instead of one drawn from the seed")
    parser.add_argument("--only", action="append", default=[], help="a kind of fault, instead of all; may be repeated")
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        help="a kind of fault to leave out, as what ends processes whose memory is watched",
    )
    parser.add_argument("--each", action="store_true", help="every kind of fault once, however long it takes")
    parser.add_argument("--brokers", type=int, choices=(1, 3))
    parser.add_argument("--spark", choices=(LOCAL, CLUSTER))
    parser.add_argument("--guarantee", choices=GUARANTEES)
    parser.add_argument("--format", choices=FORMATS, help="of repartition topics")
    parser.add_argument("--instances", type=int, choices=(1, 2))
    parser.add_argument("--standbys", type=int, choices=(0, 1))
    parser.add_argument(
        "--spread", action=argparse.BooleanOptionalAction, help="whether tasks are spread over two threads from the start"
    )
    parser.add_argument("--rate", type=int, help="records a second for each application")
    parser.add_argument("--applications", nargs="+", choices=list(APPLICATIONS), help="instead of six drawn from the seed")
    parser.add_argument("--logs", type=Path, help="a folder for what everything said, kept")
    parser.add_argument("--trial", action="store_true", help="keep nothing of what came of it")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupted)
    good = True
    runs = 1 if arguments.plan or arguments.each else arguments.runs or max(1, round(arguments.minutes / 15))
    for number in range(runs):
        outcome = _play(_plan(arguments, number, runs), arguments.logs, arguments.at_most)
        good = good and outcome.is_good
        if not arguments.trial:
            keep(outcome)
    if not arguments.trial:
        print(write_page())
    return 0 if good else 1


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt  # so that everything is ended in order


def _plan(arguments: argparse.Namespace, number: int, runs: int) -> Plan:
    if arguments.plan:
        return Plan.read(arguments.plan.read_text().splitlines())
    names = ("brokers", "spark", "guarantee", "format", "instances", "standbys", "rate", "spread")
    given = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    if arguments.applications:
        given["applications"] = tuple(arguments.applications)
    seed, kinds = arguments.seed + number, Kinds(arguments.only, arguments.without)
    setup: Setup = replace(draw(seed, 0).setup, **given)
    if setup.instances == 1:
        setup = replace(setup, standbys=0)
    if arguments.each:
        return draw_each(seed, setup, arguments.pause, kinds)
    return draw(seed, arguments.minutes / runs, setup, arguments.pause, kinds)


def _play(plan: Plan, logs: Path | None, at_most: float) -> Outcome:
    print(f"seed {plan.seed}: {plan.setup}; {len(plan.faults)} faults", flush=True)
    print("\n".join(plan.lines()), flush=True)
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    run = Run(plan, folder, lambda text: print(text, flush=True))
    try:
        with run:
            return run.play(at_most=at_most * 60)
    finally:
        if run.outcome.findings:
            print("\n".join([*map(str, run.outcome.findings[:20]), run.outcome.words]), flush=True)
        if logs is not None:
            target = logs / f"seed-{plan.seed}"
            target.mkdir(parents=True, exist_ok=True)
            for path in (*folder.glob("*.log"), *folder.glob("brokers/*/broker.*")):
                shutil.copy(path, target / f"{path.parent.name}-{path.name}")
            if run.outcome.findings:  # what the brokers have is what tells how it came to it
                shutil.copytree(folder / "brokers", target / "brokers", dirs_exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
