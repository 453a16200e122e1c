"""The topologies that are moved between Java and penstock; tests/conformance/java has them line by line."""

from __future__ import annotations

from typing import ClassVar

from penstock import (
    BufferConfig,
    Consumed,
    EmitStrategy,
    Grouped,
    Joined,
    KGroupedStream,
    KStream,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    PunctuationType,
    Record,
    Serdes,
    SessionWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TableJoined,
    TimeWindows,
    Topology,
    WindowedSerdes,
)

string, long = Serdes.string(), Serdes.long()
TEXT: Consumed[str, str] = Consumed(string, string)
BY_TEXT: Grouped[str, str] = Grouped(key_serde=string, value_serde=string)
WINDOW, GRACE = 10_000, 2_000


def named(name: str, source: str, other: str, sink: str) -> Topology:
    """One of them."""
    builder = StreamsBuilder()
    if name == "foreign-key":
        _foreign_key(builder, source, other, sink)
        return builder.build()
    stream = builder.stream(source, TEXT)
    if name == "word-count":
        _words(stream).count(Materialized(None, string, long)).to_stream().to(sink, Produced(string, long))
    elif name == "chain":
        _chain(stream, sink)
    elif name == "on-close":
        _on_close(stream, sink)
    elif name == "suppressed":
        _suppressed(stream, sink)
    elif name == "sessions":
        _sessions(stream, sink)
    elif name == "left-join":
        joined = stream.left_join(builder.table(other, TEXT), _joined, Joined(string, string, string))
        joined.to(sink, Produced(string, string))
    elif name == "ticker":
        stream.process(Ticker).to(sink, Produced(string, long))
    return builder.build()


def _words(lines: KStream[str, str]) -> KGroupedStream[str, str]:
    return lines.flat_map_values(lambda line: line.split(" ")).group_by(lambda _, word: word, BY_TEXT)


def _chain(lines: KStream[str, str], sink: str) -> None:
    counts = _words(lines).count(Materialized(None, string, long)).to_stream()
    lengths = counts.map(lambda word, count: (f"length-{len(word)}", count)).group_by_key(
        Grouped(key_serde=string, value_serde=long)
    )
    lengths.reduce(lambda one, other: one + other, Materialized(None, string, long)).to_stream().to(sink, Produced(string, long))


def _on_close(events: KStream[str, str], sink: str) -> None:
    windows = events.group_by_key(BY_TEXT).windowed_by(TimeWindows(WINDOW, grace=GRACE))
    # Kept for long, so that whoever forgot which windows were emitted would emit them again.
    kept: Materialized[str, int] = Materialized("windows", string, long, retention=24 * 3_600_000)
    counts = windows.emit_strategy(EmitStrategy.on_window_close()).count(kept)
    counts.to_stream().to(sink, Produced(WindowedSerdes.time_windowed(string, WINDOW), long))


def _suppressed(events: KStream[str, str], sink: str) -> None:
    grouped = events.select_key(lambda _, value: value.split(" ")[0]).group_by_key(BY_TEXT)
    counts = grouped.windowed_by(TimeWindows(WINDOW, grace=GRACE)).count(Materialized("windows", string, long))
    closed = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    closed.to_stream().to(sink, Produced(WindowedSerdes.time_windowed(string, WINDOW), long))


def _sessions(events: KStream[str, str], sink: str) -> None:
    sessions = events.group_by_key(BY_TEXT).windowed_by(SessionWindows(3_000, grace=GRACE))
    counts = sessions.count(Materialized("sessions", string, long))
    counts.to_stream().to(sink, Produced(WindowedSerdes.session_windowed(string), long))


def _joined(value: str, other: str | None) -> str:
    return f"{value},{'null' if other is None else other}"


def _foreign_key(builder: StreamsBuilder, orders: str, users: str, sink: str) -> None:
    left, right = builder.table(orders, TEXT), builder.table(users, TEXT)
    joined = left.join(
        right,
        _joined,
        foreign_key=lambda order: order.split(" ")[0],
        table_joined=TableJoined("by-user"),
        materialized=Materialized("joined", string, string),
    )
    joined.to_stream().to(sink, Produced(string, string))


class Ticker(Processor[str, str, str, int]):
    """Counts keys, and tells all counts every ten seconds of stream time."""

    stores: ClassVar = [Stores.key_value_store_builder(Stores.persistent_key_value_store("counts"), string, long)]

    def init(self, context: ProcessorContext[str, int]) -> None:
        """Begin to tick."""
        self.context, self.counts = context, context.get_state_store("counts")
        context.schedule(WINDOW, PunctuationType.STREAM_TIME, self.tell)

    def process(self, record: Record[str, str]) -> None:
        """Count."""
        self.counts.put(record.key, (self.counts.get(record.key) or 0) + 1)

    def tell(self, timestamp: int) -> None:
        """All counts."""
        with self.counts.all() as counts:
            for key, count in counts:
                self.context.forward(Record(key, count, timestamp))
