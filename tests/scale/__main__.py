"""Measure a fleet and write bench/results/scale.md: `python -m tests.scale 10 100 1000`, or without sizes from data there is."""

from __future__ import annotations

import argparse
import json
import logging
import resource
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.scale.fleet import Fleet
from tests.scale.report import write_report
from tests.scale.scenarios import all_events

RESULTS = Path(__file__).resolve().parents[2] / "bench" / "results"


def measure(partitions: int, instances: int, target: Path) -> None:
    """Play all events in a fleet of this size. What is known is written after each event: a large fleet takes long."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    warmups = max(instances, partitions)
    fleet = Fleet(partitions, **{"max.warmup.replicas": warmups})
    began, events = time.process_time(), []
    with fleet.clock():
        for event in all_events(fleet, instances):
            print(json.dumps(asdict(event)), flush=True)
            events.append(asdict(event))
            memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 // instances
            found: dict[str, Any] = {
                "partitions": partitions,
                "tasks": len(fleet.tasks),
                "instances": instances,
                "warmups": warmups,
                "simulated_seconds": round(fleet.now - 1000.0, 1),
                "cpu_seconds": round(time.process_time() - began, 1),
                "memory_bytes_of_an_instance": memory,
                "repeated": fleet.cluster.repeated,
                "lost": fleet.cluster.lost,
                "events": events,
            }
            target.write_text(json.dumps(found, indent=1) + "\n")


def main() -> None:
    """Measure the sizes that were given, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("partitions", type=int, nargs="*")
    parser.add_argument("--instances", type=int, default=100)
    chosen = parser.parse_args()
    logging.disable(logging.WARNING)
    for partitions in chosen.partitions:
        target = RESULTS / "data" / f"scale-{partitions}-partitions-{chosen.instances}-instances.json"
        measure(partitions, chosen.instances, target)
    write_report(RESULTS)


if __name__ == "__main__":
    main()
