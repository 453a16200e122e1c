"""What has changed between two documents, as a JSON merge patch (RFC 7396): what the page is told each second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What makes one document of another: changed members alone, and None for those that are gone. None is as good as nothing.

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
    """A document with a patch in it, as the page does it.

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
