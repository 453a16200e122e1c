"""An instance of the applications as whoever runs it sees it: started, killed, stopped, told things, and started again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.harness.killable import KillableProcess


class InstanceProcess(KillableProcess):
    """The process of `tests/soak/process.py`; `start` again goes on with the same folders."""

    own_session = True

    def __init__(self, folder: Path, given: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self.folder = folder
        self._status = folder.with_suffix(".status")
        local = str(folder / "local")
        super().__init__(
            "tests.soak.process",
            [json.dumps({**given, "status": str(self._status)})],
            folder.with_suffix(".log"),
            {**environment, "TMPDIR": local, "SPARK_LOCAL_DIRS": local},
        )
        self.ends_are_fine = False
        self.asked_before = {"answered": 0, "refused": 0}

    def start(self) -> None:
        """Start it with folders of its own."""
        for name in ("local", "events", "state"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self._remember()
        super().start()

    @property
    def status(self) -> dict[str, Any]:
        """What it said of itself last; nothing before it has said anything since its start."""
        try:
            return dict(json.loads(self._status.read_text()))
        except (OSError, ValueError):
            return {}

    @property
    def queries(self) -> dict[str, int]:
        """How many queries were answered and refused, over all its lives."""
        now = self.status.get("queries", {})
        return {name: count + now.get(name, 0) for name, count in self.asked_before.items()}

    @property
    def runs(self) -> bool:
        """Whether all applications run."""
        states = self.status.get("states", {})
        return self.is_alive and bool(states) and set(states.values()) == {"RUNNING"}

    def tell(self, **what: Any) -> None:
        """Let it do something."""
        self.write(json.dumps(what).encode())

    def last_words(self, lines: int = 60) -> str:
        """The end of what it said, without what its JVM says once the driver is gone."""
        said = self.log.read_text(errors="replace").splitlines()[-2_000:] if self.log.exists() else []
        kept = [line for line in said if not line.lstrip().startswith(("at ", "java.io.IOException: Broken pipe"))]
        why = [line for line in kept if " ERROR " in line and "accumulator" not in line]
        return "\n".join([*why[-5:], "…", *kept[-lines:]])

    def _remember(self) -> None:
        self.asked_before = self.queries
        self._status.unlink(missing_ok=True)
