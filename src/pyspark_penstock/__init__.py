"""What Spark knows by name: the data source `penstock`, which every session of a Python that has penstock finds by itself, and
the daemon of Python workers (`daemon.py`).

spark.read.format("penstock").option("application.server", "host:port").option("store", "counts").load()

Nothing is imported before it is asked for: the daemon has to be quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.spark.queries.data_source import PenstockDataSource as DefaultSource
    from penstock.spark.queries.data_source import register
    from penstock.spark.queries.live_table import live_table

__all__ = ["DefaultSource", "live_table", "register"]

_PLACES = {
    "DefaultSource": ("penstock.spark.queries.data_source", "PenstockDataSource"),
    "live_table": ("penstock.spark.queries.live_table", "live_table"),
    "register": ("penstock.spark.queries.data_source", "register"),
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return getattr(importlib.import_module(module), attribute)
