"""Where a record goes: partitioners of the user's own, as functions or as objects, with the record's headers or without."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from penstock.record import Headers

K = TypeVar("K")
V = TypeVar("V")

Partitions = int | Iterable[int] | None
"""One partition, several, none (an empty collection: the record is dropped), or None for the default."""


class StreamPartitioner(Generic[K, V]):
    """The base of partitioners that are classes: they implement `partitions`, and can be called.

    One that looks at headers takes them before the number of partitions: `partitions(topic, key, value, headers, count)`.
    A plain function does as well, with four parameters or with five.

    >>> class ByLength(StreamPartitioner):
    ...     def partitions(self, topic, key, value, number_of_partitions):
    ...         return len(key) % number_of_partitions
    >>> ByLength()("topic", "four", None, 3)
    1
    """

    def partitions(self, topic: str, key: K, value: V, *rest: Any) -> Partitions:
        """The partition of a record, or several; None leaves it to the default."""
        raise TypeError(f"{type(self).__name__} must implement partitions(topic, key, value, number_of_partitions)")

    def __call__(self, topic: str, key: K, value: V, *rest: Any) -> Partitions:
        """The same."""
        return self.partitions(topic, key, value, *rest)


class ColumnPartitioner:
    """A partitioner that chooses for many records at a time."""

    __slots__ = ()

    @abstractmethod
    def choose_all(self, values: Sequence[Any], count: int) -> list[int] | None:
        """The partition of each, by its value; None where they have to be asked for one by one."""


def chooser(partitioner: Any) -> Callable[[str, Any, Any, Headers, int], Partitions]:
    """A partitioner in the form it is called: with headers, whether it wants them or not.

    >>> chooser(lambda topic, key, value, count: 7)("topic", None, None, (), 9)
    7
    >>> chooser(lambda topic, key, value, headers, count: len(headers))("topic", None, None, (("a", b""),), 9)
    1
    """
    choose: Callable[..., Partitions] = getattr(partitioner, "partitions", partitioner)
    if _takes_headers(choose):
        return choose
    return lambda topic, key, value, headers, count: choose(topic, key, value, count)


def _takes_headers(choose: Callable[..., Any]) -> bool:
    try:
        signature = inspect.signature(choose)
    except (ValueError, TypeError):
        return False
    try:
        signature.bind(*range(4))
    except TypeError:
        return True
    return False
