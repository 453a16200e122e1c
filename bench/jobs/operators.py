"""Job 9: what users write, operator by operator."""

from __future__ import annotations

import struct
import time
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy
from confluent_kafka import Producer

from bench.application import Side
from bench.job import EXACTLY_ONCE, Bench, Measures, Row, Run, size_row, time_row
from bench.jobs.throughput import Throughput
from bench.load import create_topic, long_bytes, write
from bench.operators import ADVANCE_MS, DEDUP_MS, DIFFERENCE_MS, GAP_MS, WINDOW_MS
from bench.probe import Expected

RECORDS, KEYS, MANY_KEYS, USERS, ROWS = 300_000, 1_000, 10_000, 20_000, 50_000
LONGEST_SILENCE = 3.0  # seconds without a result that a backlog may take, whatever the operator costs
_START = 1_700_000_000_000
_PARTNER_LATE_MS = 2_000


@dataclass(frozen=True)
class Line:
    """An operator: its topics, and how many times as fast as Kafka Streams it should be."""

    label: str
    goal: float
    source: str
    other: str = "-"


# Three times where it was above two when the goals were set, twice elsewhere.
LINES: dict[str, Line] = {
    "hopping": Line("hopping windows", 3.0, "events"),
    "global-table": Line("stream with global table", 3.0, "visits", "users"),
    "reduce": Line("reduce", 3.0, "events"),
    "json": Line("JSON map and filter", 3.0, "orders"),
    "processor": Line("processor with a key-value store", 2.0, "events"),
    "tables": Line("tables joined", 2.0, "left-rows", "right-rows"),
    "suppress": Line("suppress until windows close", 2.0, "events"),
    "json-aggregate": Line("JSON aggregate through a repartition", 2.0, "orders"),
    "json-dataclass": Line("JSON aggregate of dataclasses", 3.0, "orders"),
    "json-struct": Line("JSON aggregate of msgspec Structs", 4.0, "orders"),
    "suppress-map": Line("suppress of 10,000 keys, with a map behind it", 3.0, "readings"),
    "texts": Line("stateless chain of text", 2.0, "texts"),
    "foreign-key": Line("foreign-key join", 2.0, "purchases", "users"),
    "dedup": Line("dedup: a processor with a window store", 2.0, "ids"),
    "sliding": Line("sliding windows", 2.0, "events"),
    "sessions": Line("session windows", 2.0, "events"),
    "left-join": Line("left join of streams", 2.0, "left", "right"),
    "outer-join": Line("outer join of streams", 2.0, "left", "right"),
}


class Operators(Throughput):
    """Every line is a topology of `bench/operators.py`; what each must give is worked out here, by other means."""

    number, name = 9, "operators"
    title = f"Operator by operator: {RECORDS:,} records, 4 partitions, exactly-once"

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.notes.append(
            "From RUNNING to the last committed result. *Silence* is the longest time in which nothing was committed to the "
            "output, from RUNNING on: the longest turn, and what surrounds it. A processor's stores and those of joined streams "
            "have no cache on either side; the others have Kafka Streams' 10 MB."
        )

    def variants(self) -> list[str]:
        return [name for name in LINES if not self.bench.only or name in self.bench.only]

    def feed(self) -> None:
        """Write what the chosen lines read, and keep what each must give."""
        self.ticker = Producer({"bootstrap.servers": self.bench.bootstrap, "log_level": 2})
        self.records = self.bench.scaled(RECORDS, 10_000)
        self.chance = numpy.random.default_rng(9)
        feeds = {
            "events": self._feed_events,
            "visits": self._feed_visits,
            "orders": self._feed_orders,
            "left-rows": self._feed_tables,
            "texts": self._feed_texts,
            "purchases": self._feed_purchases,
            "ids": self._feed_ids,
            "readings": self._feed_readings,
            "left": self._feed_streams,
        }
        self.expected: dict[str, Expected] = {}
        wanted = {LINES[variant].source for variant in self.variants()}
        if wanted & {"visits", "purchases"}:
            self._create("users")
            write(self.bench.bootstrap, "users", ((b"user-%d" % n, b"name-%d" % n, _START + n, -1) for n in range(USERS)))
        for topic in dict.fromkeys(line.source for line in LINES.values()):
            if topic in wanted:
                self.expected |= feeds[topic]()

    def run(self, side: Side, variant: str) -> Measures:
        line, last = LINES[variant], time.monotonic()

        def tick() -> None:
            # Kafka Streams looks for records that have found no partner when another comes, once a second at most.
            nonlocal last
            if time.monotonic() - last > 0.25:
                last = time.monotonic()
                self._tick(line.source)

        ticks = tick if variant in ("left-join", "outer-join") else lambda: None
        return self.measure(side, variant, line.source, self.expected[variant], line.other, ticks, settings=EXACTLY_ONCE)

    def rows(self, runs: list[Run]) -> list[Row]:
        rows, ran = [], {run.variant for run in runs}
        for variant, line in ((name, line) for name, line in LINES.items() if name in ran):
            rows.append(time_row(runs, variant, "seconds", line.label, line.goal, headline=True))
        worst = max((run for run in runs if run.side == "penstock"), key=lambda run: run.measures["silence"])
        silence = worst.measures["silence"]
        label = f"longest silence: {LINES[worst.variant].label} (goal: {LONGEST_SILENCE:g} s)"
        theirs = max((run.measures["silence"] for run in runs if run.side == "java"), default=None)
        rows.append(Row(label, "s", theirs, silence, silence / LONGEST_SILENCE, 1.0, "at most"))
        for variant, line in ((name, line) for name, line in LINES.items() if name in ran):
            rows.append(size_row(runs, variant, "cpu", f"{line.label}, CPU of all processes from RUNNING", "CPU s"))
        return rows

    # -- the input -----------------------------------------------------------------------------------------------------

    def _create(self, *topics: str) -> None:
        for topic in topics:
            create_topic(self.bench.bootstrap, topic, self.partitions)

    def _tick(self, topic: str) -> None:
        """A record far ahead in each partition: all windows before it are closed, and its own never is."""
        for number in range(self.partitions):
            self.ticker.produce(topic, long_bytes(0), b"far-%d" % number, number, timestamp=self._far)
        self.ticker.poll(0)

    @property
    def _far(self) -> int:
        return _START + self.records + 10 * WINDOW_MS

    def _feed_events(self) -> dict[str, Expected]:
        """A number of some key each millisecond."""
        self._create("events")
        keys = self.chance.integers(0, KEYS, self.records).tolist()
        numbers = self.chance.integers(0, 1_000, self.records).tolist()
        items = [(b"key-%d" % key, number, _START + at) for at, (key, number) in enumerate(zip(keys, numbers))]
        write(self.bench.bootstrap, "events", ((key, long_bytes(number), at, -1) for key, number, at in items))
        self._tick("events")
        self.ticker.flush(30)
        sums: Counter[bytes] = Counter()
        times: dict[bytes, list[int]] = defaultdict(list)
        for key, number, at in items:
            sums[key] += number
            times[key].append(at)
        totals = {key: long_bytes(total) for key, total in sums.items()}
        tumbling = _counted({_windowed(key, at - at % WINDOW_MS): 0 for key, at in _each(times)}, times, WINDOW_MS - 1)
        hops = range(0, WINDOW_MS, ADVANCE_MS)
        hopping = {_windowed(key, at - at % ADVANCE_MS - hop): 0 for key, at in _each(times) for hop in hops}
        return {
            "reduce": Expected(totals),
            "processor": Expected(totals, self.records + self.partitions),
            "suppress": Expected(tumbling, len(tumbling)),
            "hopping": Expected(_counted(hopping, times, WINDOW_MS - 1)),
            "sliding": Expected(_counted(_sliding(times), times, DIFFERENCE_MS)),
            "sessions": Expected(_sessions(times)),
        }

    def _feed_visits(self) -> dict[str, Expected]:
        """Each visit once, of some user."""
        self._create("visits")
        users = self.chance.integers(0, USERS, self.records).tolist()
        write(self.bench.bootstrap, "visits", ((b"visit-%d" % n, b"user-%d" % u, _START + n, -1) for n, u in enumerate(users)))
        return {
            "global-table": Expected({b"visit-%d" % n: b"user-%d,name-%d" % (u, u) for n, u in enumerate(users)}, self.records)
        }

    def _feed_orders(self) -> dict[str, Expected]:
        """Orders as JSON, by their numbers."""
        self._create("orders")
        users = self.chance.integers(0, USERS, self.records).tolist()
        amounts = self.chance.integers(0, 1_000, self.records).tolist()
        orders = list(zip(users, amounts))
        text = b'{"id":%d,"user":"user-%d","amount":%d,"country":"de","items":["tea","milk"]}'
        items = ((b"order-%d" % n, text % (n, u, a), _START + n, -1) for n, (u, a) in enumerate(orders))
        write(self.bench.bootstrap, "orders", items)
        large = {b"order-%d" % n: b'{"user":"user-%d","cents":%d}' % (u, a * 100) for n, (u, a) in enumerate(orders) if a >= 500}
        count, spent = Counter(users), Counter[int]()
        for user, amount in orders:
            spent[user] += amount
        by_user = {b"user-%d" % u: b'{"orders":%d,"amount":%d}' % (count[u], spent[u]) for u in count}
        aggregates = dict.fromkeys(("json-aggregate", "json-dataclass", "json-struct"), Expected(by_user))
        return {"json": Expected(large, len(large)), **aggregates}

    def _feed_tables(self) -> dict[str, Expected]:
        """Half of the records on either side, a few of each row."""
        self._create("left-rows", "right-rows")
        last: list[dict[bytes, bytes]] = [{}, {}]
        for side, topic in enumerate(("left-rows", "right-rows")):
            rows = self.chance.integers(0, ROWS, self.records // 2).tolist()
            keyed = [(b"row-%d" % row, b"%b-%d" % (topic.encode(), n)) for n, row in enumerate(rows)]
            write(self.bench.bootstrap, topic, ((key, value, _START + n, -1) for n, (key, value) in enumerate(keyed)))
            last[side].update(keyed)
        mine, theirs = last
        return {"tables": Expected({key: mine[key] + b"," + theirs[key] for key in mine.keys() & theirs.keys()})}

    def _feed_texts(self) -> dict[str, Expected]:
        """Lines of a short and a long word; each fifth is a comment."""
        self._create("texts")
        lines = [b"#%d" % n if n % 5 == 0 else b"a%d;word-%d" % (n % 10, n) for n in range(self.records)]
        write(self.bench.bootstrap, "texts", ((b"line-%d" % n, line, _START + n, -1) for n, line in enumerate(lines)))
        words = {b"line-%d" % n: b"<WORD-%d>" % n for n in range(self.records) if n % 5}
        return {"texts": Expected(words, len(words))}

    def _feed_purchases(self) -> dict[str, Expected]:
        """Each purchase once, of some user."""
        self._create("purchases")
        users = self.chance.integers(0, USERS, self.records - USERS if self.records > 2 * USERS else self.records).tolist()
        bought = [b"user-%d|%d" % (user, n) for n, user in enumerate(users)]
        items = ((b"purchase-%d" % n, value, _START + USERS + n, -1) for n, value in enumerate(bought))
        write(self.bench.bootstrap, "purchases", items)
        return {"foreign-key": Expected({b"purchase-%d" % n: b"%b,name-%d" % (bought[n], user) for n, user in enumerate(users)})}

    def _feed_ids(self) -> dict[str, Expected]:
        """A third comes again, soon or after a while."""
        self._create("ids")
        again, back = self.chance.random(self.records), self.chance.integers(1, 3 * DEDUP_MS, self.records)
        ids = [n - int(b) if a < 1 / 3 and b <= n else n for n, (a, b) in enumerate(zip(again.tolist(), back.tolist()))]
        write(self.bench.bootstrap, "ids", ((b"id-%d" % i, b"event-%d" % n, _START + n, -1) for n, i in enumerate(ids)))
        passed: dict[int, int] = {}
        count = 0
        for n, i in enumerate(ids):
            if i not in passed or n - passed[i] > DEDUP_MS:
                passed[i] = n
                count += 1
        return {"dedup": Expected({b"id-%d" % i: b"event-%d" % n for i, n in passed.items()}, count)}

    def _feed_readings(self) -> dict[str, Expected]:
        """Texts of 20 bytes of many keys, one each millisecond: most windows of a key count one or two."""
        self._create("readings")
        keys = self.chance.integers(0, MANY_KEYS, self.records).tolist()
        items = ((b"key-%d" % key, b"reading-%012d" % n, _START + n, -1) for n, key in enumerate(keys))
        write(self.bench.bootstrap, "readings", items)
        self._tick("readings")
        self.ticker.flush(30)
        counts = Counter(b"key-%d@%d" % (key, _START + n - (_START + n) % WINDOW_MS) for n, key in enumerate(keys))
        return {"suppress-map": Expected({key: long_bytes(count) for key, count in counts.items()}, len(counts))}

    def _feed_streams(self) -> dict[str, Expected]:
        """Half of the records on either side, each key once; every other one has a partner, two seconds later."""
        self._create("left", "right")
        pairs = self.records // 2
        right = [b"key-%d" % n if n % 2 == 0 else b"lonely-%d" % n for n in range(pairs)]
        write(self.bench.bootstrap, "left", ((b"key-%d" % n, b"left-%d" % n, _START + n, -1) for n in range(pairs)))
        items = ((key, b"right-%d" % n, _START + _PARTNER_LATE_MS + n, -1) for n, key in enumerate(right))
        write(self.bench.bootstrap, "right", items)
        self._tick("left")
        self.ticker.flush(30)
        joined = {b"key-%d" % n: b"left-%d,%b" % (n, b"-" if n % 2 else b"right-%d" % n) for n in range(pairs)}
        alone = {key: b"-,right-%d" % n for n, key in enumerate(right) if n % 2}
        return {"left-join": Expected(joined, len(joined)), "outer-join": Expected(joined | alone, len(joined) + len(alone))}


# -- what windows must hold ---------------------------------------------------------------------------------------------


def _each(times: dict[bytes, list[int]]) -> Iterator[tuple[bytes, int]]:
    return ((key, at) for key, all_of_it in times.items() for at in all_of_it)


def _windowed(key: bytes, start: int) -> bytes:
    """Java's serializer of time windows."""
    return key + struct.pack(">q", start)


def _counted(windows: dict[bytes, int], times: dict[bytes, list[int]], length: int) -> dict[bytes, bytes]:
    """For each window, how many of its key's times lie from its start to `length` later."""
    counts = {}
    for windowed in windows:
        start, of_key = struct.unpack(">q", windowed[-8:])[0], times[windowed[:-8]]
        counts[windowed] = long_bytes(bisect_right(of_key, start + length) - bisect_left(of_key, start))
    return counts


def _sliding(times: dict[bytes, list[int]]) -> dict[bytes, int]:
    """The windows that end with a record, and those that begin behind one and have others in them.

    >>> [struct.unpack(">q", w[-8:])[0] for w in sorted(_sliding({b"k": [10_000, 12_000, 30_000]}))]
    [5000, 7000, 10001, 25000]
    """
    windows: dict[bytes, int] = {}
    for key, of_key in times.items():
        for at, following in zip(of_key, [*of_key[1:], None]):
            windows[_windowed(key, at - DIFFERENCE_MS)] = 0
            if following is not None and following <= at + 1 + DIFFERENCE_MS:
                windows[_windowed(key, at + 1)] = 0
    return windows


def _sessions(times: dict[bytes, list[int]]) -> dict[bytes, bytes]:
    """The sessions in the end, with how many records each has, by Java's serializer: the key, the end, the start."""
    found = {}
    for key, of_key in times.items():
        start, count, before = of_key[0], 0, of_key[0]
        for at in of_key:
            if at - before > GAP_MS:
                found[key + struct.pack(">qq", before, start)] = long_bytes(count)
                start, count = at, 0
            count, before = count + 1, at
        found[key + struct.pack(">qq", before, start)] = long_bytes(count)
    return found
