"""The DataFrames that streams are joined with, in a test: loaded at the start, refreshed when the wall clock is moved forward."""

from __future__ import annotations

import logging
import sys
from typing import Any

from penstock.errors import StreamsError
from penstock.operators.joins.lookup_table import DataFrameSource, LookupTables
from penstock.operators.joins.stream_dataframe_join import KStreamDataFrameJoin
from penstock.topology.registry import TopologyRegistry
from penstock.topology.specs import ProcessorSpec

_log = logging.getLogger(__name__)


class DriverDataFrames:
    """The tables of a test driver. A function with a parameter gets the active SparkSession, or None if there is none."""

    def __init__(self, registry: TopologyRegistry, now: int) -> None:
        self.tables = LookupTables()
        suppliers = [node.supplier for node in registry.nodes.values() if isinstance(node, ProcessorSpec)]
        self._sources = {each.table: each.source for each in suppliers if isinstance(each, KStreamDataFrameJoin)}
        self._loaded_at = dict.fromkeys(self._sources, now)
        for name, source in self._sources.items():
            self._load(name, source)

    def refresh(self, now: int) -> None:
        """Load again what is due; a failure is a warning, as in an application."""
        for name, source in self._sources.items():
            if source.refresh_ms is not None and now >= self._loaded_at[name] + source.refresh_ms:
                self._loaded_at[name] = now
                try:
                    self._load(name, source)
                except StreamsError as exc:
                    _log.warning("%s. The rows of the last load are used until the next refresh", exc)

    def _load(self, name: str, source: DataFrameSource) -> None:
        self.tables.put(name, source.columns, source.load(name, _active_session))


def _active_session() -> Any:
    pyspark = sys.modules.get("pyspark.sql")
    return None if pyspark is None else pyspark.SparkSession.getActiveSession()
