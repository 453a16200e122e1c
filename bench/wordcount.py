"""Job 1: WordCount with a repartition, from RUNNING to the last committed count."""

from __future__ import annotations

import random
import struct
import tempfile
import time
from collections import Counter
from contextlib import closing

from confluent_kafka import Consumer, Producer

from bench.kafka_streams import JavaApplication
from penstock import Consumed, Grouped, KafkaStreams, Materialized, Produced, Serdes, StreamsBuilder, Topology
from penstock.kafka.admin import Admin

PARTITIONS, VOCABULARY, WORDS = 4, 50_000, 5


def topology(source: str, sink: str) -> Topology:
    builder, string = StreamsBuilder(), Serdes.string()
    lines = builder.stream(source, Consumed(string, string))
    words = lines.flat_map_values(str.split).group_by(lambda _, word: word, Grouped(key_serde=string, value_serde=string))
    words.count(Materialized(key_serde=string, value_serde=Serdes.long())).to_stream().to(sink, Produced(string, Serdes.long()))
    return builder.build()


def feed(bootstrap: str, topic: str, lines: int, seed: int = 1) -> Counter[str]:
    """Write the input; returns what the counts must be."""
    Admin({"bootstrap.servers": bootstrap}).create_topic(topic, PARTITIONS, {})
    choose, words, expected = random.Random(seed), [f"w{i:06d}" for i in range(VOCABULARY)], Counter[str]()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 2_000_000})
    for number in range(lines):
        chosen = choose.choices(words, k=WORDS)
        expected.update(chosen)
        producer.produce(topic, " ".join(chosen).encode(), str(number).encode())
        if number % 100_000 == 0:
            producer.poll(0)
    producer.flush()
    return expected


def seconds_until_counted(bootstrap: str, topic: str, expected: Counter[str], timeout: float = 900) -> float:
    """Read committed counts until every one is final; the time that took."""
    started, left, counts = time.monotonic(), sum(expected.values()), dict[str, int]()
    settings = {"bootstrap.servers": bootstrap, "group.id": f"reader-{topic}", "auto.offset.reset": "earliest"}
    with closing(Consumer({**settings, "isolation.level": "read_committed", "enable.auto.commit": False})) as reader:
        reader.subscribe([topic])
        while left:
            for message in reader.consume(20_000, 0.1):
                if message.error() is None:
                    word, count = message.key().decode(), struct.unpack(">q", message.value())[0]
                    left -= count - counts.get(word, 0)
                    counts[word] = count
            if time.monotonic() - started > timeout:
                raise TimeoutError(f"{left} words are missing in {topic}")
    if counts != expected:
        raise AssertionError(f"the counts in {topic} are not those of the input")
    return time.monotonic() - started


def run_java(bootstrap: str, source: str, guarantee: str, name: str, expected: Counter[str]) -> tuple[float, float]:
    """Seconds from RUNNING and from the start."""
    sink = f"{name}-out"
    Admin({"bootstrap.servers": bootstrap}).create_topic(sink, PARTITIONS, {})
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        JavaApplication("bench.WordCount", name, bootstrap, guarantee, folder, source, sink) as app,
    ):
        app.wait_until_running()
        up = time.monotonic() - started
        seconds = seconds_until_counted(bootstrap, sink, expected)
    return seconds, up + seconds


def run_penstock(bootstrap: str, source: str, guarantee: str, name: str, expected: Counter[str]) -> tuple[float, float]:
    """Seconds from RUNNING and from the start."""
    sink = f"{name}-out"
    Admin({"bootstrap.servers": bootstrap}).create_topic(sink, PARTITIONS, {})
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        config = {"application.id": name, "bootstrap.servers": bootstrap, "processing.guarantee": guarantee, "state.dir": folder}
        with KafkaStreams(topology(source, sink), config) as streams:
            streams.start()
            while streams.state.name != "RUNNING":
                if streams.failure is not None:
                    raise streams.failure
                time.sleep(0.01)
            up = time.monotonic() - started
            seconds = seconds_until_counted(bootstrap, sink, expected)
    return seconds, up + seconds
