"""Names with a memory: which internal topics and stores got a generated name because the user gave none."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from penstock.errors import TopologyError
from penstock.graph.naming import NameCounter

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _ImplicitName:
    repartition_topic: str | None = None
    changelog_topic: str | None = None
    state_store: str | None = None


class GraphNames(NameCounter):
    """The counter of a builder, and the resources whose names it made up."""

    def __init__(self) -> None:
        super().__init__()
        self._implicit: list[_ImplicitName] = []

    def note_implicit(
        self, *, repartition_topic: str | None = None, changelog_topic: str | None = None, state_store: str | None = None
    ) -> None:
        """Remember a generated name: it changes when operators are added above it, and state is lost with it."""
        self._implicit.append(_ImplicitName(repartition_topic, changelog_topic, state_store))

    def note_implicit_store(self, store_name: str, logged: bool) -> None:
        """Remember the generated name of a store and of its changelog."""
        self.note_implicit(state_store=store_name, changelog_topic=f"{store_name}-changelog" if logged else None)

    def check_implicit(self, ensure_explicit: bool) -> None:
        """Mention generated names in the log; refuse them under `ensure.explicit.internal.resource.naming`."""
        kinds = {
            "changelog topic(s)": [name.changelog_topic for name in self._implicit],
            "state store(s)": [name.state_store for name in self._implicit],
            "repartition topic(s)": [name.repartition_topic for name in self._implicit],
        }
        lines = [
            f"Following {kind} has not been named: {', '.join(name for name in found if name)}"
            for kind, found in kinds.items()
            if any(found)
        ]
        if not lines:
            return
        if ensure_explicit:
            hint = "name them with Grouped, Materialized, Joined, StreamJoined or Repartitioned, or turn off "
            raise TopologyError("\n".join([*lines, hint + "ensure.explicit.internal.resource.naming"]))
        for line in lines:
            _log.info("%s", line)
