"""Every serde: as values on a topic, as keys of a store, inside lists and windows."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from typing import Any

from penstock import Consumed, Grouped, Materialized, Produced, Serdes, WindowedSerdes
from tests.conformance.inputs import TEXTS, Feed, long
from tests.conformance.scenarios.kit import GROUPED, LONGS_OUT, OUT, L, S, show, stored, stream
from tests.conformance.scenarios.registry import dsl

_TEXTS = Serdes.list_of(S)
# The original cannot read a list back whose last element is empty (docs/differences.md).
_FILLED = {"in": Feed(TEXTS.keys, [value for value in TEXTS.values if value != b""])}
_TIMES = [long(0), long(10), long(20)]
_TIME_WINDOWED = Feed([None, *(key + time for key in (b"a", b"b", b"") for time in _TIMES)], TEXTS.values)
_SESSION_WINDOWED = Feed([None, *(key + end + long(5) for key in (b"a", b"b") for end in _TIMES[1:])], TEXTS.values)


def _texts(b: Any) -> Any:
    return stream(b, "in").filter(lambda k, v: v is not None)


def _uuid(value: str) -> uuid.UUID:
    """Java's nameUUIDFromBytes."""
    return uuid.UUID(bytes=hashlib.md5(value.encode()).digest(), version=3)


@dsl("serde_values")
def _(b: Any) -> None:
    texts = _texts(b)
    texts.map_values(lambda v: len(v) - 2).to("integers", Produced(S, Serdes.integer()))
    texts.map_values(lambda v: len(v) - 2).to("shorts", Produced(S, Serdes.short()))
    texts.map_values(lambda v: len(v) - 2).to("longs", LONGS_OUT)
    texts.map_values(lambda v: (len(v) - 2) / 3.0).to("doubles", Produced(S, Serdes.double()))
    texts.map_values(lambda v: (len(v) - 2) / 3.0).to("floats", Produced(S, Serdes.float()))
    texts.map_values(lambda v: len(v) > 1).to("booleans", Produced(S, Serdes.boolean()))
    texts.map_values(_uuid).to("uuids", Produced(S, Serdes.uuid()))
    texts.map_values(lambda v: v.encode()).to("bytes", Produced(S, Serdes.bytes()))
    texts.map_values(lambda v: None).to("nothing", Produced(S, Serdes.void()))
    texts.map_values(lambda v: [v, None, v + v]).to("lists", Produced(S, _TEXTS))
    texts.map_values(lambda v: [len(v), -1]).to("integer-lists", Produced(S, Serdes.list_of(Serdes.integer())))


def _keys(name: str, serde: Any, key: Callable[[str], Any]) -> None:
    @dsl(f"serde_keys_{name}", feeds=_FILLED)
    def _(b: Any) -> None:
        groups = _texts(b).select_key(lambda k, v: key(v)).group_by_key(Grouped(key_serde=serde, value_serde=S))
        groups.count(Materialized(key_serde=serde, value_serde=L)).to_stream().to("out", Produced(serde, L))


_keys("integer", Serdes.integer(), lambda v: len(v) - 2)
_keys("long", L, lambda v: len(v) - 2)
_keys("double", Serdes.double(), lambda v: (len(v) - 2) / 3.0)
_keys("boolean", Serdes.boolean(), lambda v: len(v) > 1)
_keys("uuid", Serdes.uuid(), _uuid)
_keys("list", _TEXTS, list)


@dsl("serde_list_aggregate", feeds=_FILLED)
def _(b: Any) -> None:
    lists = _texts(b).group_by_key(GROUPED).aggregate(list, lambda k, v, every: [*every, v], stored(_TEXTS, "lists"))
    lists.to_stream().to("out", Produced(S, _TEXTS))


@dsl("serde_time_windowed_input", feeds={"in": _TIME_WINDOWED})
def _(b: Any) -> None:
    windows = b.stream("in", Consumed(WindowedSerdes.time_windowed(S, 10), S))
    windows.select_key(lambda w, v: None if w is None else show(w)).to("out", OUT)


@dsl("serde_session_windowed_input", feeds={"in": _SESSION_WINDOWED})
def _(b: Any) -> None:
    sessions = WindowedSerdes.session_windowed(S)
    groups = b.stream("in", Consumed(sessions, S)).group_by_key(Grouped(key_serde=sessions, value_serde=S))
    groups.count().to_stream().select_key(lambda w, v: show(w)).to("out", LONGS_OUT)
