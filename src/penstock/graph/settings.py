"""What the user has set, told apart from what is set by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def given_settings(config: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The user's own settings in a configuration, which may know all defaults as well.

    >>> from penstock.config.streams_config import StreamsConfig
    >>> dict(given_settings(StreamsConfig.partial({"topology.optimization": "all"})))
    {'topology.optimization': 'all'}
    """
    return getattr(config, "originals", config) or {}


def is_true(value: Any) -> bool:
    """Whether a setting, given as a boolean or as text, is on."""
    return value is True or str(value).lower() == "true"
