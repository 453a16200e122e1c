"""How long tests wait for what has to happen.

The limit only matters when something is broken, so it is generous: a busy machine must not fail a test. Set
`PENSTOCK_TEST_WAIT_FACTOR` to scale it, for example to 3 on a slow machine or to 0.2 while looking for a hang.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

LIMIT = 300.0 * float(os.environ.get("PENSTOCK_TEST_WAIT_FACTOR", "1"))
"""Seconds."""


def wait_until(condition: Callable[[], Any], what: str, timeout: float = LIMIT, interval: float = 0.05) -> Any:
    """Return the first true result of `condition`."""
    deadline = time.monotonic() + timeout
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"after {timeout:.0f} s still not: {what}")
        time.sleep(interval)
