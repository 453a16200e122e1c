"""`reuse.ktable.source.topics`: a table's own topic serves as the changelog of its store."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.graph.sources import TableSourceNode


def reuse_source_topics(table_sources: Iterable[TableSourceNode]) -> None:
    """Mark all table sources; whether one has a store at all is only known when it is written."""
    for node in table_sources:
        node.reuse_source_topic_for_changelog = True
