"""The settings of an application for the console: set values, defaults, no secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.config.keys import KEYS
from penstock.config.secrets import shown
from penstock.config.streams_config import StreamsConfig

_LONGEST = 1_000


def settings_json(config: StreamsConfig) -> dict[str, Any]:
    """Return every setting with its value and description.

    >>> config = StreamsConfig({"application.id": "a", "bootstrap.servers": "b:1", "sasl.password": "x"})
    >>> {row["key"]: row["value"] for row in settings_json(config)["settings"]}["sasl.password"]
    '[hidden]'
    """
    names = sorted({*config, *config.originals})
    return {"settings": [_row(name, config) for name in names]}


def _row(name: str, config: StreamsConfig) -> dict[str, Any]:
    key = KEYS.get(name)
    value = config[name] if name in config else config.originals[name]
    return {
        "key": name,
        "value": _text(shown(name, value)),
        "set": name in config.originals,
        "doc": None if key is None else key.doc,
        "importance": None if key is None else key.importance.value,
    }


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value)[:_LONGEST]
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={item}" for name, item in value.items())[:_LONGEST]
    if isinstance(value, (str, int, float)):
        return str(value)[:_LONGEST]
    # Only the class of a user's object is shown: its repr could contain anything.
    kind = value if isinstance(value, type) else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"
