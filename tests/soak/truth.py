"""What an application must have written, key by key, and what is wrong with what it has written. Pure: lists in, findings out.

A truth is closed: it follows from the input alone, however the records of different partitions come together and however often
something was interrupted. How results of a key are compared is one of five rules:

    Listed      these values, each once, in this order or in any
    Counting    1, 2, 3 … up to a total (a result beyond it is an input that was taken twice)
    Steps       so many results, each larger than the one before by one of a few steps, up to a last one
    Parts       numbers that add up to a total
    Latest      the last value, of all that were possible in the order in which they can follow each other

Under at-least-once results may repeat and go back; nothing may be lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple, Protocol

from tests.harness.kafka import Message


class Kind(str, Enum):
    """What can be wrong."""

    LOSS = "loss"
    REPEAT = "repeat"
    ORDER = "order"
    WRONG = "wrong value"
    TIME = "wrong time"
    TRANSACTION = "hanging transaction"
    STORE = "store differs from its changelog"
    OFFSET = "wrong offset"
    ENDED = "ended by itself"
    UNKNOWN = "could not be looked at"


class Finding(NamedTuple):
    """One thing that is wrong, with where and what."""

    kind: Kind
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.where}: {self.what}"


class Result(NamedTuple):
    """A value with its time; None where the time depends on how partitions came together."""

    value: bytes | None
    time: int | None = None


class Rule(Protocol):
    """What one key must have."""

    def wrong(self, found: Sequence[Message]) -> list[tuple[Kind, str]]:
        """What is wrong after exactly-once processing."""

    def lost(self, found: Sequence[Message]) -> list[tuple[Kind, str]]:
        """What is wrong after at-least-once processing."""


Truth = Mapping[bytes, Rule]


def findings(name: str, truth: Truth, messages: Iterable[Message], exactly_once: bool = True) -> list[Finding]:
    """What is wrong with the results of an application, which come in order per partition."""
    by_key: dict[bytes, list[Message]] = {}
    for message in messages:
        by_key.setdefault(message.key or b"", []).append(message)
    wrong = []
    for key in sorted({*truth, *by_key}):
        found = by_key.get(key, [])
        where = f"{name} {key.decode(errors='replace')!r}"
        partitions = {message.partition for message in found}
        if len(partitions) > 1:
            wrong.append(Finding(Kind.ORDER, where, f"it lies in partitions {sorted(partitions)}"))
        rule = truth.get(key)
        if rule is None:
            wrong.append(Finding(Kind.WRONG, where, f"nobody expects it, and it has {_short(found[-1].value)}"))
            continue
        check = rule.wrong if exactly_once else rule.lost
        wrong += [Finding(kind, where, what) for kind, what in check(found)]
    return wrong


@dataclass(frozen=True)
class Listed:
    """These results, each once, in this order unless told otherwise.

    `optional` are those that may be there already, each once as well; `view` is what is compared of a value.
    """

    results: Sequence[Result]
    ordered: bool = True
    view: Callable[[bytes | None], bytes | None] | None = None
    optional: Sequence[Result] = ()

    def wrong(self, found: Sequence[Message]) -> list[tuple[Kind, str]]:
        may_be = {result.value: result for result in self.optional}
        early = [message for message in found if self._seen(message) in may_be]
        if early:
            there = [may_be[value] for value in dict.fromkeys(self._seen(message) for message in early)]
            return replace(self, results=[*self.results, *there], optional=()).wrong(found)
        expected = [result.value for result in self.results]
        values = [self._seen(message) for message in found]
        wrong = _missing_and_more(expected, values)
        if wrong:
            return wrong
        if self.ordered and values != expected:
            at = next(i for i, (a, b) in enumerate(zip(values, expected)) if a != b)
            return [(Kind.ORDER, f"number {at + 1} is {_short(values[at])}, not {_short(expected[at])}")]
        return self._times(found, values)

    def lost(self, found: Sequence[Message]) -> list[tuple[Kind, str]]:
        values = [self._seen(message) for message in found]
        may_be = {result.value for result in self.optional}
        values = [value for value in values if value not in may_be]
        expected = [result.value for result in self.results]
        return [f for f in _missing_and_more(list(dict.fromkeys(expected)), list(dict.fromkeys(values))) if f[0] != Kind.REPEAT]

    def _seen(self, message: Message) -> bytes | None:
        return message.value if self.view is None else self.view(message.value)

    def _times(self, found: Sequence[Message], values: Sequence[bytes | None]) -> list[tuple[Kind, str]]:
        """Where order does not matter, each value takes a time of those expected for it."""
        if self.ordered:
            pairs = [(r.value, r.time, m.timestamp) for r, m in zip(self.results, found)]
            late = [(v, e, f) for v, e, f in pairs if e is not None and e != f]
        else:
            expected = Counter((r.value, r.time) for r in self.results if r.time is not None)
            timed = {r.value for r in self.results if r.time is not None}
            rest = Counter((v, m.timestamp) for v, m in zip(values, found) if v in timed)
            late = [(v, t, None) for (v, t) in (expected - rest)]
        return [(Kind.TIME, f"{_short(v)} is of time {f}, not {e}") for v, e, f in late[:1]]


@dataclass(frozen=True)
class Counting:
    """Numbers from 1 to a total, eight bytes each; the last one's time may be known. Only the last one where `only_last`."""

    total: int
    last_time: int | None = None
    times: Sequence[int] | None = None
    only_last: bool = False

    def wrong(self, found: Sequence[Message]) -> list[tuple[Kind, str]]:
        numbers = [_number(message) for message in found]
        expected = [self.total] if self.only_last else list(range(1, self.total + 1))
        if numbers != expected:
            return self._compare(numbers, expected)
        times = self.times or ([None] * (len(expected) - 1) + [self.last_time])
        late = [(n, e, m.timestamp) for n, e, m in zip(numbers, times, found) if e is not None and e != m.timestamp]
        return [(Kind.TIME, f"{n} is of time {f}, not {e}") for n, e, f in late[:1]]

    def _compare(self, numbers: Sequence[int], expected: Sequence[int]) -> list[tuple[Kind, str]]:
        missing, more = Counter(expected) - Counter(numbers), Counter(numbers) - Counter(expected)
        wrong = []
        if more:
            beyond = [n for n in more if n > self.total]
            text = f"{max(beyond)} of {self.total}: input was taken twice" if beyond else f"{min(more)} came twice"
            known = beyond or min(more) in expected
            wrong.append((Kind.REPEAT, text) if known else (Kind.LOSS, f"{min(more)} of {self.total}: input was not taken"))
        if missing and not (self.only_last and more):
            wrong.append((Kind.LOSS, f"{len(missing)} of {len(expected)} are missing, the first is {min(missing)}"))
        return wrong or [(Kind.ORDER, f"they came as {_short(numbers)}")]

    def lost(self, found: Sequence[Message]) -> list[tuple[Kind, str]]:
        highest = max((_number(message) for message in found), default=0)
        return [(Kind.LOSS, f"counted up to {highest} of {self.total}")] if highest < self.total else []


@dataclass(frozen=True)
class Steps:
    """So many results up to a last one, each larger than the one before; by one of `steps`, where those are given."""

    count: int
    last: int
    steps: frozenset[int] | None = None
    last_time: int | None = None

    def wrong(self, found: Sequence[Message]) -> list[tuple[Kind, str]]:
        numbers = [_number(message) for message in found]
        last = max(numbers, default=0)
        if last != self.last or len(numbers) != self.count:
            repeats = last > self.last or len(numbers) > self.count
            return [
                (
                    Kind.REPEAT if repeats else Kind.LOSS,
                    f"{len(numbers)} results up to {last}, not {self.count} up to {self.last}",
                )
            ]
        steps = [after - before for before, after in zip([0, *numbers], numbers)]
        at = next((i for i, s in enumerate(steps) if s <= 0 or (self.steps is not None and s not in self.steps)), None)
        if at is not None:
            return [(Kind.ORDER, f"{numbers[at]} follows {numbers[at - 1] if at else 0}")]
        if self.last_time is not None and found and found[-1].timestamp != self.last_time:
            return [(Kind.TIME, f"the last is of time {found[-1].timestamp}, not {self.last_time}")]
        return []

    def lost(self, found: Sequence[Message]) -> list[tuple[Kind, str]]:
        last = max((_number(message) for message in found), default=0)
        return [(Kind.LOSS, f"up to {last} of {self.last}")] if last < self.last else []


@dataclass(frozen=True)
class Parts:
    """Numbers, none of them 0, that add up to a total."""

    total: int

    def wrong(self, found: Sequence[Message]) -> list[tuple[Kind, str]]:
        added = sum(_number(message) for message in found)
        if added != self.total:
            return [(Kind.LOSS if added < self.total else Kind.REPEAT, f"{added} of {self.total}")]
        return [(Kind.REPEAT, "a part is 0")] if any(_number(message) == 0 for message in found) else []

    def lost(self, found: Sequence[Message]) -> list[tuple[Kind, str]]:
        added = sum(_number(message) for message in found)
        return [(Kind.LOSS, f"{added} of {self.total}")] if added < self.total else []


@dataclass(frozen=True)
class Latest:
    """The last value; those before it in the order of `rank`, which is None for what cannot be."""

    last: bytes | None
    rank: Callable[[bytes], tuple[int, ...] | None]
    last_time: int | None = None

    def wrong(self, found: Sequence[Message]) -> list[tuple[Kind, str]]:
        before: tuple[int, ...] = ()
        for message in found:
            if message.value is None:
                continue
            rank = self.rank(message.value)
            if rank is None:
                return [(Kind.WRONG, f"{_short(message.value)} cannot be")]
            if rank < before:
                return [(Kind.ORDER, f"{_short(message.value)} came after something newer")]
            before = rank
        return self._end(found)

    def lost(self, found: Sequence[Message]) -> list[tuple[Kind, str]]:
        impossible = [m.value for m in found if m.value is not None and self.rank(m.value) is None]
        return [(Kind.WRONG, f"{_short(impossible[0])} cannot be")] if impossible else self._end(found)

    def _end(self, found: Sequence[Message]) -> list[tuple[Kind, str]]:
        last = found[-1].value if found else None
        if last != self.last:
            return [(Kind.LOSS, f"it ends with {_short(last)}, not {_short(self.last)}")]
        if found and self.last_time is not None and found[-1].timestamp != self.last_time:
            return [(Kind.TIME, f"it ends at {found[-1].timestamp}, not {self.last_time}")]
        return []


def hanging(name: str, stable: Mapping[int, int], ends: Mapping[int, int]) -> list[Finding]:
    """Partitions in which an open transaction hides records from readers, from both ends of each partition."""
    return [
        Finding(Kind.TRANSACTION, f"{name}-{partition}", f"stable up to {stable.get(partition)} of {end}")
        for partition, end in sorted(ends.items())
        if stable.get(partition) != end
    ]


def uncommitted(group: str, committed: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int]) -> list[Finding]:
    """Input partitions whose committed offset is not their end, though everything is processed."""
    wrong = []
    for (topic, partition), end in sorted(ends.items()):
        offset = committed.get((topic, partition))
        if offset != end and (end > 0 or offset is not None):
            side = "none is committed" if offset is None else f"{offset} is committed"
            wrong.append(Finding(Kind.OFFSET, f"{group} {topic}-{partition}", f"{side} of {end}"))
    return wrong


def differing(where: str, store: Mapping[bytes, bytes], changelog: Mapping[bytes, bytes]) -> list[Finding]:
    """Keys that a store and its changelog do not agree about."""
    different = sorted(key for key in {*store, *changelog} if store.get(key) != changelog.get(key))
    if not different:
        return []
    key = different[0]
    what = f"{len(different)} keys, such as {key!r}: {_short(store.get(key))} and logged {_short(changelog.get(key))}"
    return [Finding(Kind.STORE, where, what)]


def _missing_and_more(expected: Sequence[bytes | None], found: Sequence[bytes | None]) -> list[tuple[Kind, str]]:
    known, wrong = set(expected), []
    missing, more = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    strange = [value for value in more if value not in known]
    repeated = [value for value in more if value in known]
    if missing:
        wrong.append((Kind.LOSS, f"{missing.total()} of {len(expected)} are missing, such as {_short(next(iter(missing)))}"))
    if repeated:
        wrong.append((Kind.REPEAT, f"{_short(repeated[0])} came {Counter(found)[repeated[0]]} times"))
    if strange:
        wrong.append((Kind.WRONG, f"{_short(strange[0])} was not to come"))
    return wrong


def _number(message: Message) -> int:
    return int.from_bytes(message.value or b"", "big")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 120 else f"{text[:55]} … {text[-55:]}"
