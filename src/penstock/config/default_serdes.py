"""The default serdes of an application: what its settings name is made, and configured with all of its settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from penstock.errors import ConfigError
from penstock.serdes.serde import Serde, Serdes, resolve_serde
from penstock.serdes.windowed import SessionWindowedSerde, TimeWindowedSerde, WindowedSerdes


def default_serde(which: str, values: Mapping[str, Any], originals: Mapping[str, Any]) -> Serde[Any]:
    """The serde of `default.key.serde` or `default.value.serde`; ConfigError where it is not set.

    A name or a class is made and configured; an object is the user's, who has given it what it needs.
    """
    key = f"default.{which}.serde"
    value = values[key]
    if value is None:
        raise ConfigError(f"no {which} serde: give one to the operator, or set {key}")
    kind = re.split(r"[.$:]", value)[-1] if isinstance(value, str) else value
    if kind in ("list", "ListSerde"):
        return Serdes.list_of(
            _inner(f"default.list.{which}.serde.inner", key, "the serde of the list's entries", values, originals)
        )
    if kind in ("TimeWindowedSerde", TimeWindowedSerde):
        inner = _inner("windowed.inner.class.serde", key, "the serde of the keys inside", values, originals)
        size = values["window.size.ms"]
        if size is None:
            raise ConfigError(f"{key} = {value!r} needs window.size.ms: the bytes hold the start of a window only")
        return WindowedSerdes.time_windowed(inner, size)
    if kind in ("SessionWindowedSerde", SessionWindowedSerde):
        return WindowedSerdes.session_windowed(
            _inner("windowed.inner.class.serde", key, "the serde of the keys inside", values, originals)
        )
    return _configured(value, key, originals, which == "key")


def _inner(key: str, outer: str, what: str, values: Mapping[str, Any], originals: Mapping[str, Any]) -> Serde[Any]:
    if values[key] is None:
        raise ConfigError(f"{outer} = {values[outer]!r} needs {key}: {what}")
    return _configured(values[key], key, originals, outer == "default.key.serde")


def _configured(value: Any, key: str, originals: Mapping[str, Any], is_key: bool) -> Serde[Any]:
    serde = resolve_serde(value, key)
    if isinstance(value, str | type) or not _is_serde(value):
        try:
            serde.configure(originals, is_key)
        except Exception as exc:
            raise ConfigError(f"{key} = {value!r} could not be configured with the application's settings: {exc}") from exc
    return serde


def _is_serde(value: Any) -> bool:
    return any(callable(getattr(value, name, None)) for name in ("serializer", "serialize"))
