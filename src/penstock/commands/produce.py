"""`penstock produce`: write lines of standard input as records."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any, BinaryIO

import typer

from penstock.commands.brokers import broker_config, open_admin, partitions_of
from penstock.commands.common import ConfigFile, Settings, fail, quiet_clients, report_errors, say
from penstock.commands.progress import busy
from penstock.commands.text_serdes import TextSerde
from penstock.errors import BrokerError, SerializationError

_CLIENT = "penstock-produce"
_MAX_LINE = 16 << 20
_FLUSH_SECONDS = 30.0

KeySerde = Annotated[
    str | None,
    typer.Option("--key", metavar="SERDE", help="The serde of keys: string, long, json, …. By default records have no keys."),
]
ValueSerde = Annotated[
    str,
    typer.Option(
        "--value", metavar="SERDE", help="string, json, long, integer, short, double, float, boolean, uuid, bytes or void."
    ),
]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]


def produce(
    topic: Topic, key: KeySerde = None, value: ValueSerde = "string", config: ConfigFile = None, settings: Settings = None
) -> None:
    """Write each line of standard input as a record.

    A line is the value; with --key it is the key and the value separated by a tab. In JSON the value null deletes a key.
    Exits with 1 at the first line that cannot be written; the lines before it are written. The brokers are those of the
    setting bootstrap.servers, localhost:9092 by default.
    """
    with report_errors():
        quiet_clients()
        keys = None if key is None else TextSerde.named(key, "--key")
        values = TextSerde.named(value, "--value")
        merged = broker_config(config, settings, _CLIENT)
        with busy("asking the brokers"):
            partitions_of(open_admin(merged, _CLIENT), topic)
        if sys.stdin.isatty():
            say(f"one record per line{'' if keys is None else ': key, tab, value'}. Ctrl-D ends the input", err=True)
        writer = _Writer(merged, topic)
        try:
            for number, line in enumerate(_lines(sys.stdin.buffer), 1):
                try:
                    key_bytes, value_bytes = _record(topic, line, keys, values)
                except SerializationError as exc:
                    fail(f"Writing line {number} failed: {exc}. {_records(writer.flush())} before it were written to {topic}")
                writer.write(key_bytes, value_bytes)
        except KeyboardInterrupt:
            writer.flush()
            raise
        say(f"wrote {_records(writer.flush())} to {topic}")


def _records(count: int) -> str:
    return f"{count:,} record{'' if count == 1 else 's'}"


def _lines(source: BinaryIO) -> Iterator[bytes]:
    while line := source.readline(_MAX_LINE):
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def _record(topic: str, line: bytes, keys: TextSerde | None, values: TextSerde) -> tuple[bytes | None, bytes | None]:
    if len(line) >= _MAX_LINE:
        raise SerializationError(f"it is longer than {_MAX_LINE >> 20} MiB")
    if keys is None:
        return None, values.encode(topic, line)
    key, tab, value = line.partition(b"\t")
    if not tab:
        raise SerializationError("it has no tab between key and value")
    return keys.encode(topic, key), values.encode(topic, value)


class _Writer:
    """A producer with Java's partitioner that raises the first failed delivery."""

    def __init__(self, config: Any, topic: str) -> None:
        from confluent_kafka import Producer

        from penstock.kafka.clients import open_client, producer_config

        given = {"partitioner": "murmur2_random", **producer_config(config, _CLIENT)}
        self._producer = open_client("producer", Producer, given)
        self._topic = topic
        self._error: Any = None
        self._delivered = 0

    def write(self, key: bytes | None, value: bytes | None) -> None:
        from confluent_kafka import KafkaException

        while True:
            try:
                self._producer.produce(self._topic, value, key, on_delivery=self._on_delivery)
                break
            except BufferError:  # the producer's queue is full
                self._producer.poll(0.05)
            except KafkaException as exc:
                self._error = exc.args[0]
                break
        self._producer.poll(0)
        self._raise_failure()

    def flush(self) -> int:
        """Wait until all records are acknowledged, and return their number."""
        left = self._producer.flush(_FLUSH_SECONDS)
        self._raise_failure()
        if left:
            raise BrokerError(
                f"{left:,} records were not acknowledged within {_FLUSH_SECONDS:.0f} s, {self._delivered:,} were. "
                f"Check the brokers of topic {self._topic}"
            )
        return self._delivered

    def _on_delivery(self, error: Any, _: Any) -> None:
        if error is None:
            self._delivered += 1
        else:
            self._error = self._error or error

    def _raise_failure(self) -> None:
        from penstock.kafka.clients import refused

        if self._error is not None:
            raise refused(f"writing to topic {self._topic}, after {_records(self._delivered)},", self._error)
