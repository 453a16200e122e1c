"""The functions users give to operators, as operators call them: always with the key first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Predicate = Callable[[Any, Any], Any]
KeyValueMapper = Callable[[Any, Any], Any]
KeyValuePairMapper = Callable[[Any, Any], tuple[Any, Any]]
FlatMapper = Callable[[Any, Any], Iterable[tuple[Any, Any]]]
ValueMapperWithKey = Callable[[Any, Any], Any]
FlatValueMapperWithKey = Callable[[Any, Any], Iterable[Any]]
ForeachAction = Callable[[Any, Any], None]
Initializer = Callable[[], Any]
Aggregator = Callable[[Any, Any, Any], Any]
Reducer = Callable[[Any, Any], Any]
