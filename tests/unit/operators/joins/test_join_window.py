"""The side of a stream-stream join that is kept for the other to look into."""

from __future__ import annotations

from typing import Any

from penstock.batches.record_batch import RawBatch, RecordBatch
from penstock.operators.joins.join_window import KStreamJoinWindow
from penstock.record import Record
from tests.unit.operators.operator_kit import FakeContext


class Kept:
    """A window store that lists what is put, with how much was forwarded by then."""

    takes_duplicates = True

    def __init__(self) -> None:
        self.puts: list[tuple[Any, Any, int, int]] = []
        self.forwarded: list[Any] = []

    def put(self, key: Any, value: Any, timestamp: int) -> None:
        self.puts.append((key, None if value is None else value.value, timestamp, len(self.forwarded)))


def make() -> tuple[Any, FakeContext, Kept]:
    store = Kept()
    context = FakeContext({"left": store})
    store.forwarded = context.forwarded
    processor: Any = KStreamJoinWindow("left")()
    processor.init(context)
    return processor, context, store


def test_should_join_a_record_before_it_is_kept() -> None:
    processor, context, store = make()
    processor.process(Record("k", "a", 5))
    processor.process(Record("k", None, 6))
    assert store.puts == [("k", "a", 5, 1), ("k", None, 6, 2)]
    assert len(context.forwarded) == 2


def test_should_not_keep_what_can_never_be_found() -> None:
    processor, context, store = make()
    processor.process(Record(None, "a", 5))
    assert (len(context.forwarded), store.puts) == (1, [])


def test_should_let_rows_wait_for_the_other_side() -> None:
    processor, context, store = make()
    rows = RecordBatch(["k"], ["a"], [5], [()], RawBatch("left", 0, [0], [5], [b"k"], [b"a"]))
    processor.process_batch(rows)
    assert processor.arrived is rows
    assert (context.forwarded, store.puts) == ([], [])
