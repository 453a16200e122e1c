"""Differences of two documents as JSON merge patches (RFC 7396), for the console's updates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch between two documents: changed members, and None for removed ones. None equals a missing member.

    >>> difference({"a": 1, "b": {"x": 1, "y": 2}, "c": 3}, {"a": 1, "b": {"x": 5, "y": 2}, "d": None})
    {'b': {'x': 5}, 'c': None}
    """
    patch: dict[str, Any] = {}
    for name, value in after.items():
        known = before.get(name)
        if value is known:
            continue
        if isinstance(value, Mapping):
            inner = difference(known if isinstance(known, Mapping) else {}, value)
            if inner or not isinstance(known, Mapping):
                patch[name] = inner
        elif value != known or type(value) is not type(known):
            patch[name] = value
    patch.update({name: None for name, value in before.items() if value is not None and after.get(name) is None})
    return patch


def applied(document: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Apply a patch to a document, as the console does.

    >>> applied({"a": 1, "b": {"x": 1}}, {"a": None, "b": {"y": 2}})
    {'b': {'x': 1, 'y': 2}}
    """
    found = dict(document)
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, Mapping):
            known = found.get(name)
            found[name] = applied(known if isinstance(known, Mapping) else {}, value)
        else:
            found[name] = value
    return found
