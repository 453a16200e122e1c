"""Counts words of a table and then of a topic, as `penstock backfill` runs it; names come from the environment."""

from __future__ import annotations

import os
from typing import Any

from penstock import Consumed, Grouped, Materialized, Produced, Serdes, SparkHistory, StreamsBuilder


def topology() -> Any:
    """One count of each word, behind a repartition; with HISTORY from a table first."""
    text, builder = Serdes.string(), StreamsBuilder()
    table = os.environ.get("HISTORY")
    history = None if table is None else SparkHistory(table, key="word", value="word", timestamp="at")
    lines: Any = builder.stream(os.environ["SOURCE"], Consumed(text, text, history=history))
    counts = lines.group_by(lambda _, word: word, Grouped("words", text, text)).count(Materialized("counts"))
    counts.to_stream().to(os.environ["OUT"], Produced(text, Serdes.long()))
    return builder.build()
