"""Results as files: data, a page per job, a summary over all of them and a plot."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from bench import plot
from bench.job import Row, Run
from bench.runner import Result

_HEAD = ["measure", "Kafka Streams", "penstock", "unit", "ratio", "goal", ""]


def write(result: Result, folder: Path) -> None:
    """Write a job's data and page, and the summary and plot of all jobs that are in the folder."""
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    (data / f"{result.number}-{result.name}.json").write_text(json.dumps(asdict(result), indent=1) + "\n")
    (folder / f"{result.name}.md").write_text(page(result))
    results = [load(path) for path in sorted(data.glob("*.json"))]
    (folder / "README.md").write_text(summary(results))
    (folder / "ratios.svg").write_text(plot.svg("penstock, times Kafka Streams", _headlines(results)))


def load(path: Path) -> Result:
    """A result that was written before."""
    content = json.loads(path.read_text())
    rows, runs = [Row(**row) for row in content.pop("rows")], [Run(**run) for run in content.pop("runs")]
    return Result(**content, rows=rows, runs=runs)


def beside_others(result: Result, folder: Path, rows: Callable[[list[Run]], list[Row]]) -> Result:
    """A result of some lines with what was measured before of the others, at the same scale."""
    path = folder / "data" / f"{result.number}-{result.name}.json"
    before = load(path) if path.exists() else None
    if before is None or before.scale != result.scale:
        return result
    new = {run.variant for run in result.runs}
    runs = [*(run for run in before.runs if run.variant not in new), *result.runs]
    apart = "Its lines were measured apart, some at an earlier commit than the last, which is named below."
    return replace(result, runs=runs, rows=rows(runs), notes=list(dict.fromkeys([*result.notes, apart])))


def page(result: Result) -> str:
    """The page of one job: its table, then every single run."""
    names = list(dict.fromkeys(name for run in result.runs for name in run.measures))
    runs = [[run.variant, str(run.round), run.side, *(number(run.measures.get(name)) for name in names)] for run in result.runs]
    parts = [f"# {result.number}. {result.title}", _scale(result), *result.notes, table(_HEAD, [_cells(r) for r in result.rows])]
    others = [[row.label, name, number(value), row.unit] for row in result.rows for name, value in row.others.items()]
    if others:
        parts += ["## Beside others", table(["measure", "library", "value", "unit"], others)]
    parts += ["## Every run", table(["variant", "round", "side", *names], runs), _environment(result.environment)]
    return "\n\n".join(part for part in parts if part) + "\n"


def summary(results: list[Result]) -> str:
    """The headline rows of all jobs."""
    rows = [[f"[{r.number} {r.name}]({r.name}.md)", *_cells(row)] for r in results for row in r.rows if row.headline or row.goal]
    environments = [r.environment for r in results]
    commits = {e["commit"] for e in environments}
    parts = [
        "# penstock beside Kafka Streams",
        "Made by `make bench`: both sides interleaved on one broker and the same topics, medians over the rounds. Kafka Streams "
        "(Java) runs with 2 threads and its defaults. A ratio is penstock to Kafka Streams: of throughput where the goal says "
        "*at least*, of time, CPU or memory where it says *at most*. [How it is measured](../../docs/benchmarks.md).",
        "![ratios](ratios.svg)",
        table(["job", *_HEAD], rows),
        "" if len(commits) < 2 else "The jobs were run at different commits; each page names its own.",
        "\n".join(_scale(r) for r in results if r.scale != 1),
        _environment(environments[-1]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table.

    >>> print(table(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [head, *rows]
    text = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([text[0], "|" + "---|" * len(head), *text[1:]])


def number(value: float | None) -> str:
    """Three digits that count, thousands with commas.

    >>> [number(v) for v in (None, 0.01234, 1.234, 56.78, 1234.5)]
    ['-', '0.0123', '1.23', '56.8', '1,234']
    """
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _cells(row: Row) -> list[str]:
    goal = "" if row.goal is None else f"{row.goal_is} {row.goal:g}"
    mark = {True: "reached", False: "**missed**", None: ""}[row.reached]
    if row.reached is False and row.times_better is not None and row.times_better < 1 and row.java is not None:
        mark = "**missed, behind**"
    return [row.label, number(row.java), number(row.penstock), row.unit, number(row.ratio), goal, mark]


def _headlines(results: list[Result]) -> list[tuple[str, Row]]:
    return [(f"{r.number}. {r.name}: {row.label}", row) for r in results for row in r.rows if row.headline]


def _scale(result: Result) -> str:
    rounds = f"{result.rounds} round{'s' if result.rounds != 1 else ''}"
    return (
        rounds + "."
        if result.scale == 1
        else f"Job {result.number}: {rounds}, sizes times {result.scale:g}: a trial, not a result."
    )


def _environment(environment: dict[str, str]) -> str:
    return "## Environment\n\n" + table(list(environment), [list(environment.values())])
