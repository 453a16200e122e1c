"""What is made of the output of four partitions, one of them in trouble."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.elastic.neighbours import SCENARIOS, page, row
from bench.elastic.watched import NEIGHBOURS, TROUBLED, Output, Seen, names_in, partition_of

KEYS = [names_in(p, "k")[0] for p in range(4)]


def seen(partition: int, number: int, at: float, late: float = 0.1) -> Seen:
    return Seen(at, at - late, partition, KEYS[partition], number)


def test_should_find_the_longest_gap_of_any_partition() -> None:
    output = Output([seen(0, n, at) for n, at in enumerate([1.0, 2.0, 5.5, 6.0])] + [seen(1, n, n / 2) for n in range(20)])
    assert output.gap([0, 1], 0.0, 7.0) == 3.5
    assert output.gap([1], 0.0, 7.0) == 0.5
    assert output.gap([0], 0.0, 20.0) == 14.0  # also where it never came again
    assert output.gap([2], 1.0, 4.0) == 3.0  # or never came


def test_should_tell_what_came_twice_and_what_never_came() -> None:
    output = Output([seen(0, n, n) for n in (1, 2, 2, 3, 5)], Counter({KEYS[0]: 4, KEYS[TROUBLED]: 2}))
    assert output.repeated(NEIGHBOURS) == 2  # the second of the second, and a fifth of four
    assert output.missing(NEIGHBOURS) == 1
    assert (output.repeated([TROUBLED]), output.missing([TROUBLED])) == (0, 2)


def test_should_measure_latency_by_when_a_record_was_written() -> None:
    output = Output([seen(0, 1, 1.0, 0.5), seen(1, 1, 2.0, 0.25), seen(TROUBLED, 1, 2.0, 9.0)])
    assert output.latencies(NEIGHBOURS, 0.0, 3.0) == [0.25, 0.5]
    assert output.latencies(NEIGHBOURS, 1.0, 3.0) == [0.25]


def test_should_have_names_for_every_partition() -> None:
    assert [partition_of(key) for key in KEYS] == [0, 1, 2, 3]
    assert len(set(names_in(2, "slow", 5))) == 5


@pytest.mark.parametrize(("slowed", "verdict"), [(1.4, "reached"), (1.6, "**missed**")])
def test_should_judge_and_show_what_was_measured(slowed: float, verdict: str) -> None:
    calm = {"records": 9, "p50": 0.1, "p99": 0.2, "gap": 0.1}
    found = {"calm": calm, "trouble": {**calm, "p99": 0.2 * slowed}}
    made = {"commit": "abc", "date": "today", "CPUs": "2"}
    name = "slow task"
    assert row(name, found).startswith("| slow task | 100 | 200 | 100 |")
    text = page({name: {"found": found, "made": made, "rate": 20.0, "seconds": 60.0}})
    assert verdict in text
    assert SCENARIOS[name].settings["num.stream.threads"] == 4
