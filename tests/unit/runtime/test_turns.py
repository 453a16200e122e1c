"""Results do not depend on how records are cut into turns, beyond what a cache merges.

Without a cache the same outputs leave in the same order. With one, what leaves of a key is a part of what leaves when every
record is a turn of its own, in its order, and ends with the same value. Stores end the same.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.harness.thoroughness import examples
from tests.unit.runtime.test_batches import CASES, ROWS, run, stream_table

# Of two topics a turn has what has come of each, and takes it in the order of its times.
TWO_TOPICS = {case for case, build in CASES.items() if "join" in case or build is stream_table}
ONE_TOPIC = [case for case in CASES if case not in TWO_TOPICS]
GONE = (None, b"None", b"null")  # as some cases write it
CACHED = {
    "cogrouped",
    "count",
    "count as double",
    "count in memory",
    "counted words",
    "filtered count",
    "forgetful",
    "hopping",
    "lists",
    "lists as they are",
    "lists that are changed on their way",
    "merged and counted",
    "merged in windows",
    "old values",
    "reduce",
    "session picky lists",
    "sessions",
    "sliding",
    "sliding picky lists",
    "unlimited",
    "windowed forgetful",
    "windowed lists",
    "windowed picky lists",
    "windows",
    "windows of one's own",
}


WINDOW_RETENTION = 8  # size and grace of the windows there
SESSIONS = {case for case in CACHED if case.startswith("session")}
SESSION_RETENTION = 6  # gap and grace of the sessions there


def seen(case: str, rows: list[Any], cuts: list[int]) -> tuple[dict[Any, list[Any]], Any, Any]:
    ends = [0, *sorted(cuts), len(rows)]
    turns = [(rows[start:end], []) for start, end in pairwise(ends) if start < end]
    commits, stores, dropped = run(CASES[case], turns, columns=True, emit_interval_ms=0)
    outputs: dict[Any, list[Any]] = defaultdict(list)
    for made, *_ in commits:
        for partition, records in made.items():
            outputs[partition] += records
    return outputs, stores, dropped


def by_key(outputs: dict[Any, list[Any]]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = defaultdict(list)
    for partition, records in outputs.items():
        for _, _, key, *rest in records:
            found[partition, key].append(tuple(rest))
    return found


def is_part(some: list[Any], of: list[Any]) -> bool:
    """Whether some records come among others in their order; a row goes with the last record that leaves it gone."""
    rest = iter(of)
    return all(any(one == other or (one[0] in GONE and other[0] in GONE) for other in rest) for one in some)


def alive(stores: Any, oldest: int) -> Any:
    """Without what has expired: a window that came and went between two commits does not move the time of a cached store."""
    return {name: [entry for entry in entries if entry[0].window.start > oldest] for name, entries in stores.items()}


def session_end(key: bytes) -> int:
    """Of a session that has expired when another merges it nobody is told that it is gone, as in Java."""
    return int(re.split(rb"[@-]", key)[-1])


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Any:
    logging.disable(logging.CRITICAL)  # records are dropped on purpose
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("case", ONE_TOPIC)
@settings(max_examples=examples(5), deadline=None, phases=(Phase.generate,))
@given(rows=st.lists(ROWS, min_size=1, max_size=40), data=st.data())
def test_should_give_the_same_however_records_are_cut_into_turns(case: str, rows: list[Any], data: Any) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(rows)), max_size=4))
    outputs, stores, dropped = seen(case, rows, cuts)
    singly, stores_singly, dropped_singly = seen(case, rows, list(range(len(rows))))
    if case == "windowed forgetful":
        oldest = max(timestamp for _, _, timestamp, _ in rows) - WINDOW_RETENTION
        stores, stores_singly = alive(stores, oldest), alive(stores_singly, oldest)
    assert stores == stores_singly
    if case not in CACHED:
        assert outputs == singly
        assert dropped == dropped_singly  # behind a cache functions see fewer updates, and fail less often
        return
    merged, all_of_them = by_key(outputs), by_key(singly)
    if case in SESSIONS:
        oldest = max(timestamp for _, _, timestamp, _ in rows) - SESSION_RETENTION
        all_of_them = {key: some for key, some in all_of_them.items() if session_end(key[1]) > oldest}
        merged = defaultdict(list, {key: some for key, some in merged.items() if key in all_of_them})
    assert all(is_part(records, all_of_them[key]) for key, records in merged.items())
    for key, records in all_of_them.items():
        # A row that came and went within a turn leaves nothing, nor does one that was gone before, came and went again.
        is_gone = records[-1][0] in GONE and (not merged[key] or merged[key][-1][0] in GONE)
        assert merged[key][-1:] == records[-1:] or is_gone


CUT = (
    "values",
    "count uncached",
    "lists uncached",
    "windows uncached",
    "stream-table",
    "inner join",
    "inner join of records out of order",
    "left join",
    "left join of records out of order",
    "outer join",
    "outer join with a picky joiner",
)


def many(chance: Random) -> list[Any]:
    """More than are taken at once where there is no time: keys come again soon, times grow and may be equal or go back."""
    return [
        (chance.choice("abcdefgh"), chance.choice(["a", "b", "cc", "x"]), i // 3 + chance.randrange(6), ()) for i in range(1300)
    ]


@pytest.mark.parametrize("case", CUT)
def test_should_give_the_same_where_there_is_no_time_for_all_of_a_turn(case: str) -> None:
    chance = Random(case)
    turns = [(many(chance), many(chance))]
    at_once = run(CASES[case], turns, columns=True)
    assert run(CASES[case], turns, columns=True, until=0.0) == at_once
