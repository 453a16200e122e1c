"""Functions the DSL puts around the user's, and those behind count and reduce.

They are classes and module-level functions rather than lambdas: the batch code of an operator recognises them, and they
pickle by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock.errors import StreamsError
from penstock.partitioner import ColumnPartitioner, chooser


class IgnoreKey:
    """A function of the value, called with key and value."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, _key: Any, value: Any) -> Any:
        """The function of the value alone."""
        return self.function(value)


class IgnoreKeyJoiner:
    """A joiner of two values, called with the key as well."""

    __slots__ = ("joiner",)

    def __init__(self, joiner: Callable[[Any, Any], Any]) -> None:
        self.joiner = joiner

    def __call__(self, _key: Any, left: Any, right: Any) -> Any:
        """The joiner of the two values alone."""
        return self.joiner(left, right)


class ReversedJoiner:
    """A joiner seen from the other side."""

    __slots__ = ("joiner",)

    def __init__(self, joiner: Callable[[Any, Any, Any], Any]) -> None:
        self.joiner = joiner

    def __call__(self, key: Any, right: Any, left: Any) -> Any:
        """The joiner with the sides put right."""
        return self.joiner(key, left, right)


class SelectKey:
    """A new key beside the old value."""

    __slots__ = ("selector",)

    def __init__(self, selector: Callable[[Any, Any], Any]) -> None:
        self.selector = selector

    def __call__(self, key: Any, value: Any) -> tuple[Any, Any]:
        """The record's new key and its value."""
        return self.selector(key, value), value


class ReduceAggregator:
    """A reducer as an aggregator."""

    __slots__ = ("reducer",)

    def __init__(self, reducer: Callable[[Any, Any], Any]) -> None:
        self.reducer = reducer

    def __call__(self, _key: Any, value: Any, aggregate: Any) -> Any:
        """The first value, or the result so far reduced with a value."""
        return value if aggregate is None else self.reducer(aggregate, value)


class ReduceMerger:
    """A reducer as the merger of two sessions."""

    __slots__ = ("aggregator",)

    def __init__(self, aggregator: ReduceAggregator) -> None:
        self.aggregator = aggregator

    def __call__(self, key: Any, first: Any, second: Any) -> Any:
        """The second session's result reduced into the first's."""
        return self.aggregator(key, second, first)


class KeyPartitioner:
    """The user's partitioner of a table in a foreign-key join: it is given keys only, and must name one partition."""

    __slots__ = ("_choose", "partitioner")

    def __init__(self, partitioner: Callable[..., Any]) -> None:
        self.partitioner = partitioner
        self._choose: Callable[..., Any] | None = None

    def __call__(self, topic: str, key: Any, _value: Any, num_partitions: int) -> int | Iterable[int] | None:
        """The partition of a key."""
        if self._choose is None:
            self._choose = chooser(self.partitioner)
        partitions = self._choose(topic, key, None, (), num_partitions)
        if partitions is None or isinstance(partitions, int):
            return partitions
        chosen = set(partitions)
        if len(chosen) != 1:
            raise StreamsError(
                f"the partitioner of a foreign-key join must give exactly one partition, got {sorted(chosen)} for {topic}"
            )
        return chosen


class RespondToPrimaryPartition(ColumnPartitioner):
    """Where the answer of a foreign-key join goes: to the partition its subscription came from."""

    __slots__ = ()

    def __call__(self, _topic: str, _key: Any, response: Any, _num_partitions: int) -> int | None:
        """The partition of one."""
        partition: int | None = response.primary_partition
        return partition

    def choose_all(self, values: Sequence[Any], count: int) -> list[int] | None:
        """The partitions of many."""
        partitions = [response.primary_partition for response in values]
        return None if None in partitions or not 0 <= min(partitions) <= max(partitions) < count else partitions


def new_value(_key: Any, change: Any) -> Any:
    """What a table's change looks like in a stream."""
    return change.new_value


def keep_all(_key: Any, _value: Any) -> bool:
    """Every record."""
    return True


def has_key(key: Any, _value: Any) -> bool:
    """Records with a key."""
    return key is not None


def count_initializer() -> int:
    """Nothing counted yet."""
    return 0


def count_aggregator(_key: Any, _value: Any, count: int) -> int:
    """One more."""
    return count + 1


def count_subtractor(_key: Any, _value: Any, count: int) -> int:
    """One less."""
    return count - 1


def count_merger(_key: Any, first: int, second: int) -> int:
    """The counts of two sessions that become one."""
    return first + second


def reduce_initializer() -> None:
    """Nothing yet: the first value is the first result."""
