"""Consumers that reach nobody any more are replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.ids import TopicPartition
from penstock.kafka import fetch
from penstock.kafka.fetch import FetchRange, LenientFetcher


class SilentConsumer:
    """Is assigned partitions, and never hears of them."""

    closed = False

    def assign(self, partitions: Sequence[Any]) -> None: ...

    def unassign(self) -> None: ...

    def consume(self, count: int, timeout: float) -> list[Any]:
        return []

    def position(self, partitions: Sequence[Any]) -> Sequence[Any]:
        return partitions

    def close(self) -> None:
        self.closed = True


def test_should_read_with_a_new_consumer_where_nothing_at_all_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[SilentConsumer] = []

    def open_client(*_: Any) -> SilentConsumer:
        made.append(SilentConsumer())
        return made[-1]

    monkeypatch.setattr(fetch, "open_client", open_client)
    fetcher = LenientFetcher({}, timeout=0.0)
    for reads in (1, 2):
        fetcher.fetch([FetchRange("in", 0, 5, 9)])
        assert fetcher.take_short().keys() == {TopicPartition("in", 0)}
        assert len(made) == reads
        assert made[-1].closed
