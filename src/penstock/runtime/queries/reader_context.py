"""What a store is given when it is opened by a reader and not by its task."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from penstock.config.streams_config import StreamsConfig
from penstock.ids import TaskId
from penstock.runtime.store_context import AbstractTaskContext
from penstock.runtime.task_metrics import TaskMetrics
from penstock.state.store import RestoreCallback, StateStore


class _Folder:
    """The part of a state manager that a reader needs: where the files are, and what the changelog is called."""

    def __init__(self, base_dir: Path, changelog: str | None) -> None:
        self.base_dir = base_dir
        self._changelog = changelog

    def changelog_for(self, store_name: str) -> str | None:
        return self._changelog

    def register_store(self, store: StateStore, restore: RestoreCallback) -> None:
        """A reader restores nothing."""


class ReaderContext(AbstractTaskContext):
    """The context of a store that is only read: serdes and folder, no changelog and no cache."""

    def __init__(self, config: StreamsConfig, task_id: TaskId, folder: Path, changelog: str | None, metrics: Any = None) -> None:
        super().__init__(task_id, config, _Folder(folder, changelog), _NoMetrics(), None)
        self.metrics = metrics

    def current_system_time_ms(self) -> int:
        """Wall-clock time."""
        return round(time.time() * 1000)


class _NoMetrics(TaskMetrics):
    """Reading leaves no traces in a task's metrics."""

    registry: Any = None

    def __init__(self) -> None:
        pass
