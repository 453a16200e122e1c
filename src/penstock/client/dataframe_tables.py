"""The DataFrames that streams are joined with: loaded before the start, refreshed in the background, given to all threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from penstock.clock import monotonic
from penstock.operators.joins.lookup_table import DataFrameSource, PackedTable
from penstock.operators.joins.stream_dataframe_join import KStreamDataFrameJoin
from penstock.topology.registry import TopologyRegistry
from penstock.topology.specs import ProcessorSpec

_log = logging.getLogger(__name__)


def dataframe_sources(registry: TopologyRegistry) -> dict[str, DataFrameSource]:
    """The DataFrames of a topology, by the name of their join."""
    suppliers = [node.supplier for node in registry.nodes.values() if isinstance(node, ProcessorSpec)]
    return {supplier.table: supplier.source for supplier in suppliers if isinstance(supplier, KStreamDataFrameJoin)}


class DataframeTables:
    """Loads DataFrames and hands them on; a refresh that fails leaves the table as it was, with a warning."""

    def __init__(
        self,
        sources: Mapping[str, DataFrameSource],
        session: Callable[[], object],
        hand_on: Callable[[Mapping[str, PackedTable]], None],
        thread_name: str,
    ) -> None:
        self._sources = sources
        self._session = session
        self._hand_on = hand_on
        self._tables: dict[str, PackedTable] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=thread_name, daemon=True)

    def load(self) -> None:
        """Load all tables for the first time; raises if one cannot be loaded."""
        for name in self._sources:
            self._load(name)
        if self._tables:
            self._hand_on(dict(self._tables))

    def start(self) -> None:
        """Refresh in the background what is to be refreshed."""
        if any(source.refresh_ms is not None for source in self._sources.values()):
            self._thread.start()

    def close(self) -> None:
        """Refresh nothing more. A DataFrame that is being read now is not waited for."""
        self._ended.set()

    def refresh(self, name: str) -> None:
        """Load a table again and hand it on."""
        try:
            self._load(name)
            if not self._ended.is_set():
                self._hand_on(dict(self._tables))
        except Exception as exc:  # noqa: BLE001 - whatever a user's function and Spark raise
            if not self._ended.is_set():
                _log.warning("%s. The rows of the last load are used until the next refresh", exc)

    def _load(self, name: str) -> None:
        source, started = self._sources[name], monotonic()
        table = source.load(name, self._session)
        before = self._tables.get(name)
        self._tables[name] = PackedTable.of(1 if before is None else before.version + 1, source.columns, table)
        _log.info("join_dataframe %s: %d rows were loaded in %.1f s", name, len(table), monotonic() - started)

    def _run(self) -> None:
        due = {name: monotonic() + s.refresh_ms / 1000 for name, s in self._sources.items() if s.refresh_ms is not None}
        while not self._ended.wait(max(0.0, min(due.values()) - monotonic())):
            name = min(due, key=due.__getitem__)
            self.refresh(name)
            due[name] = monotonic() + (self._sources[name].refresh_ms or 0) / 1000
