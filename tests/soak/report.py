"""The page about all soaks that were kept: faults by kind, what was verified and found, and what was needed each minute."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from bench import environment
from tests.soak.plan import counted
from tests.soak.run import Outcome
from tests.soak.samples import growth

_FOUND = Path(__file__).with_name("found.md")
RESULTS = Path(__file__).parents[2] / "bench" / "results"

_WIDTH, _LEFT, _RIGHT, _BAR, _PANEL = 960, 220, 40, 20, 96
_STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328 } .title { font-size: 16px; font-weight: 600 } .small { font-size: 11px }
  .bar { fill: #0969da } .line { stroke: #0969da; fill: none; stroke-width: 1.5 } .axis { stroke: #d1d9e0 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .bar { fill: #4493f8 } .line { stroke: #4493f8 } .axis { stroke: #3d444d }
  }
"""

_INTRODUCTION = """# Soak

Applications of all kinds under load while faults of all kinds happen to them. What each must write follows from its input alone,
whatever happens; every result, its order and its time are compared with that every few minutes and at the end, and so are
transactions that hang, committed offsets, and stores with their changelogs. Stores are queried all the time.
`make soak` does it; a run is drawn from its seed and can be played again (`python -m tests.soak --help`).
"""


def keep(outcome: Outcome, results: Path = RESULTS) -> None:
    """Add a run to those that were kept."""
    kept = _kept(results)
    run = {
        "made": environment.describe(),
        "seed": outcome.plan.seed,
        "setup": asdict(outcome.plan.setup),
        "what": str(outcome.plan.setup),
        "minutes": round(outcome.minutes, 1),
        "done": [[round(at, 1), kind] for at, kind in outcome.done],
        "missed": [kind for _, kind, _ in outcome.missed],
        "findings": [str(finding) for finding in outcome.findings[:20]],
        "verified": outcome.verified,
        "queries": outcome.queries,
        "restarts": outcome.restarts,
        "samples": [{name: round(value, 1) for name, value in sample.items()} for sample in outcome.samples],
    }
    results.mkdir(exist_ok=True)
    (results / "soak.json").write_text("\n".join(json.dumps(entry) for entry in [*kept, run]) + "\n")


def write_page(results: Path = RESULTS) -> str:
    """Write page and picture of what was kept; returns the page."""
    runs = _kept(results)
    (results / "soak.svg").write_text(svg(runs))
    (results / "soak.md").write_text(text := page(runs))
    return text


def _kept(results: Path) -> list[dict[str, Any]]:
    path = results / "soak.json"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def page(runs: Sequence[Mapping[str, Any]]) -> str:
    """All runs as Markdown."""
    kinds = counted(kind for run in runs for _, kind in run["done"])
    steps = Counter(kind for run in runs for _, kind in run["done"] if " at " in kind)
    verified = Counter[str]()
    for run in runs:
        verified.update({**run["verified"], **{f"queries {name}": count for name, count in run["queries"].items()}})
    minutes = sum(run["minutes"] for run in runs)
    parts = [
        _INTRODUCTION,
        f"**{sum(kinds.values()):,} faults** in {len(runs)} {'run' if len(runs) == 1 else 'runs'} of {minutes:,.0f} minutes "
        "together; "
        f"{verified['results']:,} results of {verified['records in']:,} records compared; "
        f"{verified['queries answered']:,} queries answered, {verified['queries refused']:,} refused with a reason.\n",
        "![faults by kind, and what everything needed](soak.svg)\n",
        "| fault | times |\n|---|---:|\n" + "\n".join(f"| {kind} | {count} |" for kind, count in kinds.items()) + "\n",
    ]
    if steps:
        listed = ", ".join(f"{kind} {count}" for kind, count in sorted(steps.items()))
        parts.append(f"Of those at a step: {listed}.\n")
    rows = [
        "| seed | set-up | applications | minutes | faults | results | restarts | wrong | grown | commit | date |",
        "|---:|---|---|---:|---:|---:|---:|---|---|---|---|",
    ]
    for run in runs:
        grown = growth(run["samples"])
        flat = "; ".join(grown) or ("nothing" if len(run["samples"]) >= 15 else "too short to tell")
        cells = [
            run["seed"],
            run["what"],
            len(run["setup"]["applications"]),
            f"{run['minutes']:.0f}",
            len(run["done"]),
            f"{run['verified'].get('results', 0):,}",
            run["restarts"],
            "; ".join(run["findings"][:3]) or "nothing",
            flat,
            run["made"]["commit"],
            run["made"]["date"],
        ]
        rows.append(f"| {' | '.join(map(str, cells))} |")
    parts.append("## Runs\n\n" + "\n".join(rows) + "\n")
    parts.append(_FOUND.read_text())
    parts.append(_NOTES)
    if runs:
        made = ", ".join(f"{key} {value}" for key, value in runs[-1]["made"].items() if key not in ("commit", "date"))
        parts.append(f"Made with {made}.\n")
    return "\n".join(parts)


_NOTES = """- **Restarts**: instances that were started again because they had ended, as after a full disk.
- **Grown**: what needed more in the last third of a run than in the second one, by a tenth and some more.
- **What comes and goes**: a driver whose stores are asked keeps what their threads have not flushed yet, up to a write buffer
  (16 MB) for each, and so does the state folder; the JVM's heap grows and shrinks up to `spark.driver.memory`.
- **Threads of the JVM** grow with names: Spark keeps one for each thread of each application that there ever was in a session. In
  the two hours of seed 602 those were 12 at the start and 43 at the end, 18 of them of applications whose topics were deleted.
- Lines are cut and slowed down by a relay between instances and brokers, and between brokers; a process that stands still
  (`stop`) is cut off from everybody. A busy disk has a neighbour who writes and waits for it. Clocks step for drivers, their JVMs
  and workers.
"""


def svg(runs: Sequence[Mapping[str, Any]]) -> str:
    """Faults by kind as bars; below, each minute of the longest run as lines."""
    kinds = counted(kind for run in runs for _, kind in run["done"])
    longest = max(runs, key=lambda run: len(run["samples"]), default=None)
    samples = longest["samples"] if longest else []
    names = [name for name in (samples[0] if samples else ()) if name != "minute"]
    top = 60
    height = top + _BAR * len(kinds) + 50 + _PANEL * ((len(names) + 2) // 3) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>Soak</title><style>{_STYLE}</style>",
        f'<text class="title" x="10" y="24">{sum(kinds.values()):,} faults by kind</text>',
    ]
    most = max(kinds.values(), default=1)
    for number, (kind, count) in enumerate(kinds.items()):
        y = top + number * _BAR - 10
        wide = count / most * (_WIDTH - _LEFT - _RIGHT - 40)
        parts.append(f'<text x="{_LEFT - 10}" y="{y + 12}" text-anchor="end">{escape(kind)}</text>')
        parts.append(f'<rect class="bar" x="{_LEFT}" y="{y + 1}" width="{max(wide, 1):.1f}" height="14" rx="2"/>')
        parts.append(f'<text class="small" x="{_LEFT + wide + 6:.1f}" y="{y + 12}">{count}</text>')
    top += _BAR * len(kinds) + 30
    if longest is not None:
        parts.append(
            f'<text class="title" x="10" y="{top}">Each minute of the longest run ({longest["minutes"]:.0f} minutes)</text>'
        )
    for number, name in enumerate(names):
        parts += _panel(name, samples, 20 + number % 3 * 315, top + 20 + number // 3 * _PANEL)
    return "\n".join([*parts, "</svg>\n"])


def _panel(name: str, samples: Sequence[Mapping[str, float]], left: float, top: float) -> list[str]:
    wide, high = 285.0, 52.0
    values = [sample.get(name, 0.0) for sample in samples]
    highest, last = max([*values, 1.0]), max(sample["minute"] for sample in samples) or 1.0
    points = " ".join(
        f"{left + sample['minute'] / last * wide:.1f},{top + 18 + high - value / highest * high:.1f}"
        for sample, value in zip(samples, values)
    )
    bottom = top + 18 + high
    return [
        f'<text class="small" x="{left}" y="{top + 10}">{escape(name)}: {values[-1]:,.0f}, at most {highest:,.0f}</text>',
        f'<line class="axis" x1="{left}" x2="{left + wide}" y1="{bottom}" y2="{bottom}"/>',
        f'<polyline class="line" points="{points}"/>',
    ]
