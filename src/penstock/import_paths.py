"""What configuration values stand for: objects that are named by an import path, or by their class."""

from __future__ import annotations

import importlib
from typing import Any

from penstock.errors import ConfigError


def imported(path: str) -> Any:
    """What `package.module.Name` or `package.module:Name` names; raises ImportError, AttributeError or ValueError.

    >>> imported("collections:OrderedDict.fromkeys")
    <built-in method ...
    """
    module, separator, name = path.partition(":") if ":" in path else path.rpartition(".")
    if not separator:
        raise ImportError(f"{path!r} is neither a name nor an import path")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def imported_for(key: str, path: str, allowed: str) -> Any:
    """The same for a setting; `allowed` tells the user what it may be."""
    try:
        return imported(path)
    except (ImportError, AttributeError) as exc:
        raise ConfigError(f"{key}: cannot import {path!r}; {allowed}") from exc


def instance_for(key: str, value: Any, allowed: str) -> Any:
    """An object as it is, a class as an object of it."""
    if not isinstance(value, type):
        return value
    try:
        return value()
    except Exception as exc:
        raise ConfigError(f"{key}: {value!r} cannot be made without arguments: {exc}; {allowed}") from exc
