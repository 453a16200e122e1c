"""How much of the input a store reflects, and how much a query asks for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from penstock.errors import SerializationError
from penstock.ids import TopicPartition


class Position:
    """For each input partition the offset of the last record that is reflected in a store.

    >>> position = Position.empty().with_component("orders", 0, 41)
    >>> position.merge(Position.from_map({"orders": {0: 40, 1: 7}}))
    Position({'orders': {0: 41, 1: 7}})
    """

    __slots__ = ("_topics",)

    def __init__(self, topics: Mapping[str, Mapping[int, int]] | None = None) -> None:
        self._topics: dict[str, dict[int, int]] = {topic: dict(offsets) for topic, offsets in (topics or {}).items()}

    @classmethod
    def empty(cls) -> Position:
        """A position that knows of no input."""
        return cls()

    @classmethod
    def from_map(cls, topics: Mapping[str, Mapping[int, int]]) -> Position:
        """The position with these offsets by topic and partition."""
        return cls(topics)

    @classmethod
    def of(cls, offsets: Mapping[TopicPartition, int]) -> Position:
        """The position with these offsets by topic partition."""
        position = cls()
        topics = position._topics
        for (topic, partition), offset in offsets.items():
            if topic not in topics:
                topics[topic] = {}
            topics[topic][partition] = offset
        return position

    def with_component(self, topic: str, partition: int, offset: int) -> Position:
        """Move one partition forward, in place; an offset that is lower than the known one changes nothing."""
        offsets = self._topics.setdefault(topic, {})
        offsets[partition] = max(offset, offsets.get(partition, offset))
        return self

    def merge(self, other: Position | None) -> Position:
        """Take the higher offset of both for every partition, in place."""
        if other is not None:
            for topic, partition, offset in other:
                self.with_component(topic, partition, offset)
        return self

    def copy(self) -> Position:
        """An equal position that changes by itself."""
        return Position(self._topics)

    @property
    def topics(self) -> frozenset[str]:
        """The topics that are known."""
        return frozenset(self._topics)

    @property
    def is_empty(self) -> bool:
        """Whether no input is known."""
        return not self._topics

    def partition_positions(self, topic: str) -> dict[int, int]:
        """The offsets of a topic by partition; empty where it is not known."""
        return dict(self._topics.get(topic, {}))

    def to_json(self) -> str:
        """As text, for keeping and sending."""
        return json.dumps(self._topics, sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> Position:
        """What `to_json` gave; raises SerializationError for anything else."""
        try:
            read = json.loads(text)
            return cls({topic: {_partition(p): _offset(o) for p, o in offsets.items()} for topic, offsets in read.items()})
        except (ValueError, RecursionError, AttributeError) as exc:
            raise SerializationError(f"a position is JSON of topics, partitions and offsets, got {text[:100]!r}: {exc}") from exc

    def __iter__(self) -> Iterator[tuple[str, int, int]]:
        return iter([(topic, p, offset) for topic, offsets in self._topics.items() for p, offset in offsets.items()])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Position) and self._topics == other._topics

    __hash__ = None  # type: ignore[assignment]  # it changes: not a key

    def __repr__(self) -> str:
        return f"Position({self._topics!r})"


def _partition(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise ValueError(f"{text[:50]!r} is not a partition")
    return int(text)


def _offset(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"an offset is a whole number, not a {type(value).__name__}")
    return value


class PositionBound:
    """How much of the input a store has to reflect before it answers.

    >>> PositionBound.unbounded().is_unbounded
    True
    """

    __slots__ = ("_position",)

    def __init__(self, position: Position | None = None) -> None:
        self._position = Position() if position is None else position.copy()

    @classmethod
    def unbounded(cls) -> PositionBound:
        """Whatever the store reflects will do."""
        return cls()

    @classmethod
    def at(cls, position: Position) -> PositionBound:
        """At least what `position` says."""
        return cls(position)

    @property
    def position(self) -> Position:
        """The least that has to be reflected."""
        return self._position

    @property
    def is_unbounded(self) -> bool:
        """Whether any position will do."""
        return self._position.is_empty

    def permits(self, position: Position, partition: int) -> bool:
        """Whether a store partition at `position` may answer.

        Of the bound count the input partitions that feed this store partition: the one of its own number, and every one that
        its position tells of (behind a shuffle all partitions of a topic feed each task).

        >>> PositionBound.at(Position({"orders": {0: 5, 1: 9}})).permits(Position({"orders": {0: 5}}), 0)
        True
        """
        for topic, bounded, offset in self._position:
            known = position.partition_positions(topic)
            if (bounded == partition or bounded in known) and known.get(bounded, -1) < offset:
                return False
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositionBound) and self._position == other._position

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PositionBound(position={self._position!r})"
