"""bench/results/scale.md and its curves, from the data of the fleets that were measured."""

from __future__ import annotations

from pathlib import Path


def write_report(results: Path) -> None:
    """Nothing yet."""
