from __future__ import annotations

import time

import pytest


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of a simulated world, in seconds: it stands still unless it is moved."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr("penstock.client.scheduling.thread_roster.fence", lambda config, transactional_id: None)
    return now
