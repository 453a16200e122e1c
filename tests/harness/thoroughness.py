"""How many generated examples property tests take.

`make test` takes a fifth of them. `make test-all` takes all; it sets `PENSTOCK_TEST_THOROUGH`.
"""

from __future__ import annotations

import os

THOROUGH = bool(os.environ.get("PENSTOCK_TEST_THOROUGH"))


def examples(number: int) -> int:
    """Return how many of `number` examples this run takes, at least two."""
    return number if THOROUGH else max(2, number // 5)
