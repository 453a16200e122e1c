"""What was measured, kept by scenario as data, and all of it as a page with a table and pictures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.elastic.draw import svg
from bench.elastic.measure import PARTITIONS, Curve
from bench.elastic.scenarios import SCENARIOS

RESULTS = Path(__file__).parents[1] / "results"

_INTRODUCTION = """# Elasticity

What happens to the output of a count by key while instances or executors come, go and are killed, under load and exactly-once.
Both libraries ran one after the other, each on a new broker, with their defaults but for what is named below. A session is 10 s
in penstock and 45 s in Kafka Streams by default. Every scenario was run once, on a machine that had other work too: a difference
of a second or two means nothing.

- **Longest gap**: the longest time any partition of the output was without a committed record, from the first event on. A
  partition is a task, so a gap is seen also if all others go on.
- **Stayed, moved**: on a cluster the same apart, for partitions whose thread stayed where it was after an event, and for those
  whose thread moved.
- **Silence**: the longest time there was no output at all.
- **Replayed**: records of changelogs that were read before tasks could run, from the first event on; not what standbys read
  meanwhile.
- **Exact**: every key was counted 1, 2, 3 ... without a gap or a repeat, to its last record.
"""

_NOTES = """
Below each picture stands what did not come about in the time it was given.

Executors are a matter of Spark; beside them stands what is most like it in Kafka Streams, an instance: the figures of the rows
above, not another run. Executors sit on hosts of their own (addresses and folders), and a host is lost with all that is on it.
Only threads that move pause. Threads that stay wait only for a core; all processes share two. Executors run with
`spark.python.daemon.module=pyspark_penstock.daemon`, and with the archive of classes that `penstock warm-up` makes.
"""


def slug(name: str) -> str:
    """A scenario as a file name."""
    return "elastic-" + name.replace(",", "").replace("'", "").replace(" ", "-").lower()


def keep(name: str, curves: Sequence[Curve], made: Mapping[str, str], load: Mapping[str, Any]) -> None:
    """Write what a scenario gave: its data and its picture."""
    RESULTS.mkdir(exist_ok=True)
    data: dict[str, Any] = {"scenario": name, "made": dict(made), "load": dict(load), "settings": dict(SCENARIOS[name].settings)}
    data["curves"] = [asdict(curve) for curve in curves]
    (RESULTS / f"{slug(name)}.json").write_text(json.dumps(data) + "\n")


def kept(name: str) -> tuple[list[Curve], dict[str, Any]] | None:
    """What a scenario gave, with what Kafka Streams did that is most like it; None where it was not run."""
    path = RESULTS / f"{slug(name)}.json"
    if not path.exists():
        return None
    data = json.loads(path.read_text())
    curves = [_curve(curve) for curve in data["curves"]]
    beside = SCENARIOS[name].java
    if beside is not None:
        other = kept(beside)
        curves += [curve for curve in (other[0] if other else []) if curve.name == "Kafka Streams"]
    return curves, data


def write_page() -> str:
    """The pictures and the page of all scenarios that were run so far."""
    names = ["penstock", "Kafka Streams"]
    rows = [
        "| scenario | | longest gap (s) | stayed (s) | moved (s) | silence (s) | replayed | exact |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    pictures, sources = [], []
    for name in SCENARIOS:
        found = kept(name)
        if found is None:
            continue
        curves, data = found
        (RESULTS / f"{slug(name)}.svg").write_text(svg(name, curves))
        pictures.append(f"## {name[0].upper()}{name[1:]}\n\n![{name}]({slug(name)}.svg)\n")
        for curve in sorted(curves, key=lambda curve: names.index(curve.name)):
            start = curve.first_event
            beside = curve.name != "penstock" and SCENARIOS[name].java is not None
            rows.append(
                f"| {name} | {curve.name}{' (instances)' if beside else ''} | {curve.longest_gap(start):.1f} | "
                f"{_apart(curve)} | {curve.silence(start):.1f} | {curve.replayed(start):,} | {curve.exact} |"
            )
            if curve.notes and not beside:
                pictures.append(f"{curve.name}: {'; '.join(curve.notes)}.\n")
            if curve.places and not beside:
                pictures.append("\n".join(f"- {gaps}" for gaps in curve.by_event()) + "\n")
        made, load = data["made"], data["load"]
        settings = {**SCENARIOS[name].settings, **{f"{k} (Kafka Streams)": v for k, v in SCENARIOS[name].java_settings.items()}}
        sources.append(
            f"| {name} | {made['commit']} | {made['date']} | {load['rate']:,}/s after {load['ahead']:,} at once | "
            f"{', '.join(f'`{key} = {value}`' for key, value in settings.items())} |"
        )
        versions = ", ".join(f"{key} {value}" for key, value in made.items() if key not in ("commit", "date"))
    parts = [_INTRODUCTION, "\n".join(rows), _NOTES, "\n".join(pictures), "## How it was made\n"]
    parts.append(
        "\n".join(["| scenario | commit | date | load | settings |", "|---|---|---|---|---|", *sources]) + f"\n\n{versions}\n"
    )
    page = "\n".join(parts)
    (RESULTS / "elastic.md").write_text(page)
    return "\n".join(rows)


def _apart(curve: Curve) -> str:
    """Two cells: the longest gap of partitions whose thread stayed, and of those whose thread moved."""
    events = curve.by_event() if curve.places else []
    gaps = [[gap for gap in found if gap is not None] for found in ([e.stayed for e in events], [e.moved for e in events])]
    return " | ".join(f"{max(found):.1f}" if found else "-" for found in gaps)


def _curve(data: Mapping[str, Any]) -> Curve:
    return Curve(
        data["name"],
        data["seconds"],
        {int(partition): {int(step): count for step, count in output.items()} for partition, output in data["output"].items()},
        [(at, what) for at, what in data["events"]],
        [(at, records) for at, records in data["restored"]],
        data["exact"],
        list(data["notes"]),
        [(at, {int(partition): place for partition, place in places.items()}) for at, places in data.get("places", ())],
        data.get("partitions", PARTITIONS),
    )
