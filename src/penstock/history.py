"""History of a source: a table of any Spark reader that holds what Kafka no longer keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from penstock.errors import TopologyError

HistorySource = str | Path | Callable[..., Any]
HistoryEnd = datetime | Mapping[int, int] | None


@dataclass(frozen=True)
class SparkHistory:
    """A table whose rows a source reads before the records of its topic.

    `source` is a path, the name of a table, or a function that returns a DataFrame; the function gets the SparkSession if it has
    a parameter. `format` is the format of a path: parquet, csv, json, orc, delta, iceberg or another one that Spark has.

    `key`, `value`, `timestamp` and `headers` name columns. A binary column holds the bytes of the record. The source's serde
    writes values of other types. Timestamps are timestamps, or integers in milliseconds. Without a key (`key=None`) the record
    has none. Headers are an array of (key, value) structs, as in Spark's Kafka source, or a map.

    `until` says where the table ends and the topic begins: a time (rows before it come from the table; the topic is read from its
    first record at or after it), or an offset for each partition (all rows come from the table). Without it, all rows come from
    the table, and the topic is read from where `auto.offset.reset` says.

    >>> SparkHistory("/lake/orders", key="customer", value="order", timestamp="at").format
    'parquet'
    """

    source: HistorySource
    format: str = "parquet"
    key: str | None = "key"
    value: str = "value"
    timestamp: str = "timestamp"
    headers: str | None = None
    until: HistoryEnd = None
    allow_gap: bool = False

    def __post_init__(self) -> None:
        if not (callable(self.source) or (isinstance(self.source, (str, Path)) and str(self.source))):
            raise TopologyError(
                f"SparkHistory(source={self.source!r}): a path, the name of a table or a function that returns a DataFrame is "
                "expected."
            )
        for name, optional in (("format", False), ("key", True), ("value", False), ("timestamp", False), ("headers", True)):
            given = getattr(self, name)
            if not ((given is None and optional) or (isinstance(given, str) and given)):
                raise TopologyError(f"SparkHistory({name}={given!r}): {'a name or None' if optional else 'a name'} is expected.")
        if isinstance(self.until, Mapping):
            object.__setattr__(self, "until", dict(self.until))
            if not all(type(part) is int and part >= 0 for entry in self.until.items() for part in entry):
                raise TopologyError(f"SparkHistory(until={self.until!r}): partitions and offsets are integers from 0 on.")
        elif self.until is not None and not isinstance(self.until, datetime):
            raise TopologyError(
                f"SparkHistory(until={self.until!r}): a datetime, a mapping of partitions to offsets or None is expected."
            )


@dataclass(frozen=True)
class SourceHistory:
    """The history of a topic, with the serdes of its source; None stands for the default serde."""

    topic: str
    history: SparkHistory
    key_serde: Any = None
    value_serde: Any = None


def history_of(topics: Any, history: SparkHistory | None, key_serde: Any, value_serde: Any) -> SourceHistory | None:
    """The history of a source of these topics; TopologyError if it does not read exactly one topic by its name."""
    if history is None:
        return None
    if not isinstance(history, SparkHistory):
        raise TopologyError(f"Consumed(history={history!r}): a SparkHistory is expected.")
    if not isinstance(topics, (tuple, list)) or len(topics) != 1:
        raise TopologyError("A source with history reads exactly one topic, by its name: give each topic a source of its own.")
    return SourceHistory(str(topics[0]), history, key_serde, value_serde)
