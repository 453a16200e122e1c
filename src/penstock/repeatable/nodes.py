"""Which functions of the user's run in a sub-topology, and the first reason why it may not give the same records again."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from penstock.operators import (
    ForeachProcessorSupplier,
    KStreamFlatMap,
    KStreamFlatMapValues,
    KStreamMap,
    KStreamMapValues,
    KStreamPeek,
    KStreamPrint,
)
from penstock.repeatable.look import first_finding
from penstock.repeatable.whose import installed_package
from penstock.timestamps import resolve_timestamp_extractor
from penstock.topology.specs import NodeSpec, ProcessorSpec, SinkSpec, SourceSpec
from penstock.user_code import added_at

_ONLY_LOOK = (ForeachProcessorSupplier, KStreamPeek, KStreamPrint)
"""What these do changes no record."""
_GIVE_RECORDS = (KStreamFlatMap, KStreamFlatMapValues, KStreamMap, KStreamMapValues)

_METHODS = ("serialize", "deserialize", "extract", "partitions")


class Reason(NamedTuple):
    """What speaks against computing the records of a sub-topology again.

    >>> str(Reason("by-user", "app.py:9", "salted", "app.py:4", "uses random.random, which is chance"))
    'salted (app.py:4) uses random.random, which is chance; it is given to by-user (added at app.py:9)'
    """

    operator: str
    added_at: str
    function: str
    where: str
    what: str

    def __str__(self) -> str:
        where = f" ({self.where})" if self.where else ""
        return f"{self.function}{where} {self.what}; it is given to {self.operator}{added_at(self.added_at)}"


def why_not_repeatable(nodes: Iterable[NodeSpec], config: Mapping[str, Any]) -> Reason | None:
    """The first reason why functions of these nodes may give other records when they are run again; None where none is seen."""
    for node in nodes:
        gives = isinstance(node, ProcessorSpec) and isinstance(node.supplier, _GIVE_RECORDS)
        own = installed_package(node.added_at)
        for function in _functions_of(node, config):
            finding = first_finding(function, gives, own)
            if finding is not None:
                return Reason(node.name, node.added_at, *finding)
    return None


def _functions_of(node: NodeSpec, config: Mapping[str, Any]) -> Iterator[Any]:
    if isinstance(node, ProcessorSpec):
        if not isinstance(node.supplier, _ONLY_LOOK):
            yield from _users(node.supplier)
    elif isinstance(node, SourceSpec):
        yield from _users(node.key_deserializer or _default(config, "key"), "deserialize")
        yield from _users(node.value_deserializer or _default(config, "value"), "deserialize")
        yield from _users(resolve_timestamp_extractor(node.timestamp_extractor or config["default.timestamp.extractor"]))
    elif isinstance(node, SinkSpec):
        yield from _users(node.key_serializer or _default(config, "key"), "serialize")
        yield from _users(node.value_serializer or _default(config, "value"), "serialize")
        yield from _users(node.partitioner)
        yield from _users(node.topic_extractor)


def _default(config: Any, which: str) -> Any:
    return getattr(config, f"default_{which}_serde") if config.get(f"default.{which}.serde") is not None else None


def _users(given: Any, method: str | None = None, seen: set[int] | None = None) -> Iterator[Any]:
    """The user's functions in what was given to a node: penstock's own objects are looked through.

    `method` is what is called of a serde: the other half of it runs elsewhere.
    """
    seen = set() if seen is None else seen
    if given is None or id(given) in seen or isinstance(given, str | bytes | int | float):
        return
    seen.add(id(given))
    if isinstance(given, list | tuple):
        for one in given:
            yield from _users(one, method, seen)
    elif _is_penstocks(given):
        for name, kept in _attributes(given):
            if method is None or not name.endswith("serializer") or name == f"{method}r":
                yield from _users(kept, method, seen)
    else:
        methods = [name for name in ((method,) if method else _METHODS) if callable(getattr(type(given), name, None))]
        yield from (getattr(given, name) for name in methods)
        if callable(given) and not methods:
            yield given


def _is_penstocks(given: Any) -> bool:
    """Whether an object is penstock's own; a function of the user's, or an object of his class, is not."""
    named = given if isinstance(given, type) or inspect.isroutine(given) else type(given)
    return str(getattr(named, "__module__", "")).partition(".")[0] == "penstock"


def _attributes(given: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(given, type) or not hasattr(type(given), "__mro__"):
        return
    if hasattr(given, "__dict__"):
        yield from vars(given).items()
    for base in type(given).__mro__:
        for name in vars(base).get("__slots__", ()):
            if hasattr(given, name):
                yield name, getattr(given, name)
