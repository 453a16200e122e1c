"""`python -m bench`: run jobs and write tables and a plot."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from bench import others, profile, report
from bench.job import Bench
from bench.jobs import JOBS, latency, operators
from bench.runner import Result, run_jobs

_RESULTS = Path(__file__).parent / "results"
_QUICK_SCALE = 0.5
_LINES = {5: latency.LINES, 9: tuple(operators.LINES)}


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="bench", description="penstock beside Kafka Streams (Java)")
    known = "; ".join(f"{number} {job.name}" for number, job in JOBS.items())
    parser.add_argument("--jobs", type=_numbers, default=list(JOBS), help=f"which jobs, as 1,3 (default: all): {known}")
    parser.add_argument(
        "--only",
        type=_lines,
        default=frozenset(),
        help="some lines of a job, beside what is there of the others: "
        + "; ".join(f"of job {number} {', '.join(lines)}" for number, lines in _LINES.items()),
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each side runs each job")
    parser.add_argument("--scale", type=float, default=1.0, help="sizes of the inputs, as a factor; results go to results/trial")
    parser.add_argument(
        "--quick", action="store_true", help="jobs 1 (half of its input) and 5, one round, in under 6 minutes; to results/quick"
    )
    parser.add_argument("--others", action="store_true", help="also measure Quix Streams and Faust on job 1 (installs them)")
    parser.add_argument(
        "--profile", type=int, metavar="JOB", help="run penstock's side of a job and tell where a batch's time goes"
    )
    parser.add_argument("--results", type=Path, help="where to write instead")
    arguments = parser.parse_args()
    # A request to end is an exception, so that everything that was started is ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if arguments.profile is not None:
        page = profile.run(arguments.profile, arguments.scale, arguments.only)
        folder = arguments.results or _RESULTS / ("trial" if arguments.scale != 1 else "")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"profile-{JOBS[arguments.profile].name}.md").write_text(page)
        print(page)
        return
    numbers, rounds, scale = arguments.jobs, arguments.rounds, arguments.scale
    if arguments.quick:
        numbers, rounds, scale = [1, 5], 1, min(scale, _QUICK_SCALE)
    folder = arguments.results or _RESULTS / ("quick" if arguments.quick else "trial" if arguments.scale != 1 else "")
    started = time.monotonic()

    def log(text: str) -> None:
        print(f"[{time.monotonic() - started:6.0f} s] {text}", flush=True)

    def finished(result: Result, bench: Bench) -> None:
        if arguments.others and result.number == 1:
            others.add(result, bench, log)
        if arguments.only:
            result = report.beside_others(result, folder, JOBS[result.number](bench).rows)
        report.write(result, folder)
        print(report.page(result), flush=True)

    if arguments.only and not any(numbers == [number] and arguments.only <= {*lines} for number, lines in _LINES.items()):
        parser.error("--only takes lines of one job: give it with --jobs 5 or --jobs 9")
    run_jobs(numbers, rounds, scale, arguments.quick, finished, log, arguments.only)
    log(f"results are in {folder}")


def _lines(text: str) -> frozenset[str]:
    known = [name for lines in _LINES.values() for name in lines]
    if unknown := [name for name in text.split(",") if name not in known]:
        raise argparse.ArgumentTypeError(f"there is no line {unknown[0]}; there are {', '.join(known)}")
    return frozenset(text.split(","))


def _numbers(text: str) -> list[int]:
    chosen = [int(part) for part in text.split(",")]
    if unknown := [number for number in chosen if number not in JOBS]:
        raise argparse.ArgumentTypeError(f"there is no job {unknown[0]}; there are {', '.join(map(str, JOBS))}")
    return chosen


if __name__ == "__main__":
    main()
