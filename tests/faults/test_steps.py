"""Workers that die at each step of a batch, on a real broker: every word is counted 1, 2, 3 ... without a gap or a repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder
from tests.faults.dying import STEPS, Words
from tests.harness.kafka import Kafka, unique, wait_until
from tests.integration.helpers import counts, texts, topics

string = Serdes.string()
LINES = ["to be or not to be", "that is the question", "to sleep perchance to dream"]


def word_count(source: str, out: str, words: Words) -> Any:
    builder = StreamsBuilder()
    lines: Any = builder.stream(source, Consumed(string, string))
    grouped = lines.flat_map_values(words).group_by(lambda _, word: word, Grouped("words", string, string))
    grouped.count(Materialized("counts")).to_stream().to(out, Produced(string, Serdes.long()))
    return builder.build()


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.slow)], ids=["in memory", "by blocks"])
def test_should_count_exactly_once_though_a_worker_dies_at_each_step(
    kafka: Kafka, run: Callable[..., Any], tmp_path: Path, threads: int
) -> None:
    source, out = topics(kafka, "in", "out")
    (orders := tmp_path / "orders").mkdir()
    words = Words(orders)
    config = {"application.id": unique("steps"), "processing.guarantee": "exactly_once_v2", "num.stream.threads": threads}
    run(word_count(source, out, words), config)
    expected: Counter[str] = Counter()

    def is_exact() -> bool:
        return counts(kafka, out) == {word: list(range(1, count + 1)) for word, count in expected.items()}

    for step in (None, *STEPS):
        died = words.order(step) if step else None
        for partition in (0, 1):
            kafka.feed(source, texts(*(("line", line) for line in LINES)), partition=partition)
            expected.update(word for line in LINES for word in line.split())
        if died is not None:
            wait_until(died.exists, f"a worker has died: {step}")
        wait_until(is_exact, f"every word once for each time it came, after {step}")
