"""bench/results/scale.md and its curves, from the data of the fleets that were measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.plot import STYLE

_INTRODUCTION = """# A simulated fleet

`python -m tests.scale 10 100 1000` plays the events below with the real event loop, task manager, thread supervision,
copies of state, assignor and group protocol of each instance. Brokers, Spark and the clock are simulated (`tests/scale`). The
application has 3 sub-topologies with a store each, so 1,000 partitions are 3,000 tasks. An instance has 4 threads,
`num.standby.replicas` is 1, each changelog has 100,000 records, and `max.warmup.replicas` is the larger of the numbers of
instances and partitions. Heartbeats are 3 s and sessions 45 s.

- **generations**: rebalances until the group is stable again. **moved**: tasks that got another owner, summed over
  generations; **least**: those that had to.
- **member**, **assignment**: bytes that a member sends and gets when it joins. **group record**: what the broker stores of the
  group; it takes 1,048,588 bytes unless told otherwise.
- **assign**: CPU milliseconds of the leader for one assignment; **take**: of a member to read its own. **driver**: CPU
  milliseconds of one driver in a second of simulated time.
- **unowned**: seconds until a task that nobody ran was run again. A loss includes the session of 45 s. At a start it is the
  time until the group has met.
- **behind**: the most records that waited for tasks with nothing to do with the failure, at one record a second.

No record was read twice or left out in any run.
"""


def write_report(results: Path) -> None:
    """Write the tables and curves of all fleets that have data."""
    found = [json.loads(path.read_text()) for path in (results / "data").glob("scale-*.json")]
    found.sort(key=lambda fleet: (fleet["instances"], fleet["partitions"]))
    parts = [_INTRODUCTION, "![Curves](scale.svg)\n", _growth(found)]
    parts += [_table(fleet) for fleet in found]
    (results / "scale.md").write_text("\n".join(parts))
    curves = [fleet for fleet in found if fleet["instances"] == max(f["instances"] for f in found)]
    (results / "scale.svg").write_text(_svg(curves))


def _largest(fleet: dict[str, Any], measure: str) -> float:
    return max(event[measure] for event in fleet["events"])


_MEASURES = {
    "member bytes": lambda fleet: _largest(fleet, "member_bytes"),
    "assignment bytes": lambda fleet: _largest(fleet, "assignment_bytes"),
    "group record bytes": lambda fleet: _largest(fleet, "record_bytes"),
    "assign, ms": lambda fleet: 1000 * _largest(fleet, "assign_seconds"),
    "take, ms": lambda fleet: 1000 * _largest(fleet, "take_seconds"),
    "driver, ms/s": lambda fleet: 1000 * next((e["cpu"] for e in fleet["events"] if e["event"] == "steady"), 0.0),
    "KB an instance": lambda fleet: fleet["memory_bytes_of_an_instance"] / 1000,
}


def _growth(found: list[dict[str, Any]]) -> str:
    """The largest value of each measure, by size."""
    lines = ["## Growth", "", "The largest value of any event; the driver's CPU is that of a quiet group.", ""]
    lines += ["| partitions | tasks | instances | " + " | ".join(_MEASURES) + " |", "|---:|---:|---:|" + "---:|" * len(_MEASURES)]
    for fleet in found:
        values = " | ".join(_number(measure(fleet)) for measure in _MEASURES.values())
        lines.append(f"| {fleet['partitions']:,} | {fleet['tasks']:,} | {fleet['instances']} | {values} |")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _table(fleet: dict[str, Any]) -> str:
    columns = (
        "seconds",
        "generations",
        "moved",
        "least",
        "member",
        "assignment",
        "group record",
        "assign",
        "driver",
        "unowned",
        "behind",
    )
    lines = [
        f"## {fleet['partitions']:,} partitions, {fleet['tasks']:,} tasks, {fleet['instances']} instances",
        "",
        "| event | " + " | ".join(columns) + " |",
        "|---|" + "---:|" * len(columns),
    ]
    for event in fleet["events"]:
        sizes = (event["member_bytes"], event["assignment_bytes"], event["record_bytes"])
        values = (
            *(f"{event['seconds']:.0f}", event["generations"], event["moved"], event["fewest"]),
            *(f"{size:,}" if size else "-" for size in sizes),
            *(f"{1000 * event[kind]:.1f}" if event["generations"] else "-" for kind in ("assign_seconds", "take_seconds")),
            *(f"{1000 * event['cpu']:.1f}", f"{event['unowned']:.1f}", event["behind_elsewhere"]),
        )
        lines.append(f"| {event['event']} | " + " | ".join(map(str, values)) + " |")
    return "\n".join(lines) + "\n"


# -- curves ------------------------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 280, 150, 60, 60, 50


def _svg(fleets: list[dict[str, Any]]) -> str:
    """A curve of each measure over the number of tasks, both axes linear and from 0: a straight line is linear growth."""
    columns = 3
    rows = -(-len(_MEASURES) // columns)
    width, height = columns * (_WIDTH + _GAP) + _LEFT, rows * (_HEIGHT + 70) + _TOP
    title = f"Growth with the number of tasks, {fleets[0]['instances']} instances"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{title}</title><style>{STYLE} polyline {{ fill: none; stroke: #0969da; stroke-width: 2 }}</style>",
        f'<text class="title" x="10" y="24">{title}</text>',
    ]
    most = max(fleet["tasks"] for fleet in fleets)
    for number, (name, measure) in enumerate(_MEASURES.items()):
        left, top = _LEFT + number % columns * (_WIDTH + _GAP), _TOP + number // columns * (_HEIGHT + 70)
        values = [(fleet["tasks"], measure(fleet)) for fleet in fleets]
        highest = max(value for _, value in values) or 1
        points = [
            (left + _WIDTH * 0.9 * tasks / most, top + _HEIGHT - _HEIGHT * 0.9 * value / highest) for tasks, value in values
        ]
        parts.append(f'<text x="{left}" y="{top - 6}">{name}</text>')
        parts.append(f'<line class="grid" x1="{left}" x2="{left + _WIDTH}" y1="{top + _HEIGHT}" y2="{top + _HEIGHT}"/>')
        parts.append(f'<line class="grid" x1="{left}" x2="{left}" y1="{top}" y2="{top + _HEIGHT}"/>')
        parts.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>')
        for (x, y), (tasks, value) in zip(points, values):
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#0969da"/>')
            parts.append(f'<text class="small" x="{x:.1f}" y="{y - 8:.1f}" text-anchor="middle">{_number(value)}</text>')
            if tasks * 10 > most or tasks == most:
                parts.append(
                    f'<text class="small muted" x="{x:.1f}" y="{top + _HEIGHT + 16}" text-anchor="middle">{tasks:,}</text>'
                )
    return "\n".join([*parts, "</svg>\n"])
