"""The processors of the scenarios; Processors.java has the same."""

from __future__ import annotations

from typing import Any

from penstock import FixedKeyProcessor, Processor, PunctuationType, Record, Serdes, Stores, ValueAndTimestamp, Windowed
from penstock.windows import SessionWindow
from tests.conformance.scenarios.kit import L, S, show, text


class _Contextual(Processor):  # type: ignore[type-arg]
    context: Any

    def init(self, context: Any) -> None:
        self.context = context


class Shout(_Contextual):
    """Adds an exclamation mark."""

    def process(self, record: Any) -> None:
        self.context.forward(record.with_value(text(record.value) + "!"))


class Count(_Contextual):
    """Counts per key in a store called "counts"."""

    def init(self, context: Any) -> None:
        super().init(context)
        self._counts = context.get_state_store("counts")

    def process(self, record: Any) -> None:
        if record.key is None:
            return
        if record.value is None:
            self.context.forward(record.with_value(self._counts.delete(record.key)))
            return
        now = (self._counts.get(record.key) or 0) + 1
        self._counts.put(record.key, now)
        self.context.forward(record.with_value(now))


class Write(_Contextual):
    """Puts into the store "shared" and forwards nothing."""

    def process(self, record: Any) -> None:
        if record.key is not None:
            self.context.get_state_store("shared").put(record.key, record.value)


class Read(_Contextual):
    """Looks the key up in the store it was given."""

    def __init__(self, store: str) -> None:
        self._store = store

    def process(self, record: Any) -> None:
        if record.key is not None:
            found = self.context.get_state_store(self._store).get(record.key)
            if isinstance(found, ValueAndTimestamp):
                found = f"{found.value}@{found.timestamp}"
            self.context.forward(record.with_value(f"{text(record.value)}/{text(found)}"))


class Route(_Contextual):
    """Sends to one child by the value, or to all."""

    def process(self, record: Any) -> None:
        if record.value is None:
            self.context.forward(record)
        else:
            self.context.forward(record, "long" if len(record.value) > 1 else "short")


class StreamTicker(_Contextual):
    """Ticks every 10 ms of stream time, five times, then stops itself."""

    def init(self, context: Any) -> None:
        super().init(context)
        self._ticks = 0
        self._schedule = context.schedule(10, PunctuationType.STREAM_TIME, self._tick)

    def _tick(self, time: int) -> None:
        self.context.forward(Record("tick", f"at {time} stream {self.context.current_stream_time_ms()}", time))
        self._ticks += 1
        if self._ticks == 5:
            self._schedule.cancel()

    def process(self, record: Any) -> None:
        self.context.forward(record.with_value(f"at {self.context.current_stream_time_ms()}"))


class AnchoredTicker(_Contextual):
    """Ticks anchored at a start time, of both clocks."""

    def init(self, context: Any) -> None:
        super().init(context)
        context.schedule(10, PunctuationType.STREAM_TIME, lambda time: self._tick("stream", time), start_time=3)
        context.schedule(10, PunctuationType.WALL_CLOCK_TIME, lambda time: self._tick("wall", time), start_time=3)

    def _tick(self, clock: str, time: int) -> None:
        self.context.forward(Record(clock, str(time), max(0, time)))

    def process(self, record: Any) -> None:
        self.context.forward(record)
        self.context.commit()


class WallClockFlush(_Contextual):
    """Keeps the last value of each key and sends them all every 10 ms of wall-clock time."""

    def init(self, context: Any) -> None:
        super().init(context)
        self._last = context.get_state_store("last")
        context.schedule(10, PunctuationType.WALL_CLOCK_TIME, self._flush)

    def _flush(self, time: int) -> None:
        sent = []
        with self._last.all() as entries:
            for key, value in entries:
                self.context.forward(Record(key, f"{text(value)} clock {self.context.current_system_time_ms()}", time))
                sent.append(key)
        for key in sent:
            self._last.delete(key)

    def process(self, record: Any) -> None:
        if record.key is not None:
            self._last.put(record.key, record.value)


class Head(_Contextual):
    """Adds a header, drops another, and tells what it saw."""

    def process(self, record: Any) -> None:
        seen = "".join(f"{key}={'null' if value is None else value.decode()};" for key, value in record.headers)
        changed = tuple(header for header in record.headers if header[0] != "drop")
        changed += (("added", text(record.key).encode()),)
        self.context.forward(record.with_headers(changed).with_value(seen))
        self.context.forward(record)


class Origin(_Contextual):
    """Forwards where the record came from."""

    def process(self, record: Any) -> None:
        context = self.context
        origin = context.record_metadata
        where = f"{origin.topic} {origin.partition} {origin.offset} {context.current_stream_time_ms()}"
        context.forward(record.with_value(f"{context.application_id} {context.task_id} {where}"))


class Shift(_Contextual):
    """Moves records in time."""

    def process(self, record: Any) -> None:
        self.context.forward(record.with_timestamp(record.timestamp + 100))
        self.context.forward(record.with_timestamp(max(0, record.timestamp - 100)).with_key(text(record.key) + "'"))


def _windows(iterator: Any) -> str:
    with iterator as entries:
        return "".join(f"{show(key)}={text(value)} " for key, value in entries)


class Recent(_Contextual):
    """Keeps values in the window store "windows" and forwards those of the last 10 ms."""

    def init(self, context: Any) -> None:
        super().init(context)
        self._windows = context.get_state_store("windows")

    def process(self, record: Any) -> None:
        if record.key is None:
            return
        windows, time = self._windows, record.timestamp
        windows.put(record.key, record.value, time)
        with windows.fetch_range(record.key, max(0, time - 10), time) as entries:
            mine = "".join(f"{start}={text(value)} " for start, value in entries)
        found = [
            mine,
            _windows(windows.fetch_all(max(0, time - 5), time + 5)),
            _windows(windows.backward_fetch_all(max(0, time - 5), time + 5)),
            _windows(windows.fetch_key_range("a", "c", max(0, time - 20), time)),
            text(windows.fetch(record.key, time)),
        ]
        self.context.forward(record.with_value("|".join(found)))


class Sessions(_Contextual):
    """Merges sessions by hand in the session store "sessions"."""

    def init(self, context: Any) -> None:
        super().init(context)
        self._sessions = context.get_state_store("sessions")

    def process(self, record: Any) -> None:
        if record.key is None:
            return
        sessions = self._sessions
        start = end = record.timestamp
        value = text(record.value)
        merged = []
        with sessions.find_sessions(record.key, record.timestamp - 5, record.timestamp + 5) as found:
            for windowed, aggregate in found:
                merged.append(windowed)
                start, end = min(start, windowed.window.start), max(end, windowed.window.end)
                value = f"{text(aggregate)},{value}"
        for windowed in merged:
            sessions.remove(windowed)
        sessions.put(Windowed(record.key, SessionWindow(start, end)), value)
        kept = [
            _windows(sessions.fetch(record.key)),
            _windows(sessions.backward_fetch_key_range("a", "c")),
            text(sessions.fetch_session(record.key, start, end)),
        ]
        self.context.forward(record.with_value("|".join(kept)))


def _version(version: Any) -> str:
    return "null" if version is None else f"{version.value}@{version.timestamp}"


class History(_Contextual):
    """Puts versions into "history" and forwards what the store says to that."""

    def init(self, context: Any) -> None:
        super().init(context)
        self._history = context.get_state_store("history")

    def process(self, record: Any) -> None:
        if record.key is None:
            return
        history, key, time = self._history, record.key, record.timestamp
        said = _version(history.delete(key, time)) if record.value == "x" else str(history.put(key, record.value, time))
        versions = [history.get(key), history.get(key, time - 5), history.get(key, time + 5)]
        self.context.forward(record.with_value(" ".join([said, *map(_version, versions)])))


class Stamp(_Contextual):
    """Keeps values with a timestamp of its own in "stamped"."""

    def init(self, context: Any) -> None:
        super().init(context)
        self._stamped = context.get_state_store("stamped")

    def process(self, record: Any) -> None:
        if record.key is None:
            return
        before = self._stamped.get(record.key)
        now = None if record.value is None else ValueAndTimestamp(record.value, record.timestamp * 2)
        self._stamped.put(record.key, now)
        self.context.forward(record.with_value("none" if before is None else f"{before.value}@{before.timestamp}"))


class Walk(_Contextual):
    """Reads a key-value store called "entries" in every way there is."""

    def init(self, context: Any) -> None:
        super().init(context)
        self._entries = context.get_state_store("entries")

    @staticmethod
    def _list(iterator: Any) -> str:
        with iterator as entries:
            return "|" + "".join(f"{key}={text(value)} " for key, value in entries)

    def process(self, record: Any) -> None:
        if record.key is None:
            return
        entries, said = self._entries, ""
        if record.value is None:
            said = text(entries.delete(record.key))
        elif len(record.value) == 1:
            said = text(entries.put_if_absent(record.key + record.value, record.value))
        elif record.value == "":
            entries.put_all([(record.key, "all"), (record.key + "2", "two")])
        else:
            entries.put(record.key, record.value)
        walks = [
            entries.range("a", "b"),
            entries.reverse_range("b", None),
            entries.all(),
            entries.reverse_all(),
            entries.prefix_scan("b", Serdes.string()),
        ]
        listed = "".join(self._list(walk) for walk in walks)
        self.context.forward(record.with_value(f"{said}|{text(entries.get(record.key))}{listed}"))


class CountSupplier:
    """Supplies a processor together with its store."""

    def __init__(self) -> None:
        self.stores = [Stores.key_value_store_builder(Stores.in_memory_key_value_store("counts"), S, L)]

    def __call__(self) -> Count:
        return Count()


class Enumerate(FixedKeyProcessor):  # type: ignore[type-arg]
    """Values with a running number per key, in the store "numbers"."""

    def init(self, context: Any) -> None:
        self.context = context
        self._numbers = context.get_state_store("numbers")

    def process(self, record: Any) -> None:
        key = text(record.key)
        self._numbers.put(key, (self._numbers.get(key) or 0) + 1)
        self.context.forward(record.with_value(f"{text(record.value)}#{self._numbers.get(key)}"))
        if record.value is None:
            self.context.forward(record.with_timestamp(record.timestamp + 1).with_value("again"))


class Capitals(_Contextual):
    """Keeps a copy of a topic in a global store, in capitals."""

    def process(self, record: Any) -> None:
        if record.key is not None:
            value = None if record.value is None else record.value.upper()
            self.context.get_state_store("capitals").put(record.key, value)


class Load(_Contextual):
    """Puts what it reads into the read-only store "reference"."""

    def process(self, record: Any) -> None:
        if record.key is not None:
            self.context.get_state_store("reference").put(record.key, record.value)


class Picky(_Contextual):
    """Fails on the value "x"."""

    def process(self, record: Any) -> None:
        if record.value == "x":
            raise ValueError("no x here")
        self.context.forward(record)
