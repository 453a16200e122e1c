"""The output topics of a test."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

from penstock.record import ProducedRecord, Record
from penstock.serdes.contract import as_deserializer, call_with_headers
from penstock.testing.input_topic import as_serde

K = TypeVar("K")
V = TypeVar("V")


class _Outputs(Protocol):
    def read_record(self, topic: str) -> ProducedRecord: ...

    def queue_size(self, topic: str) -> int: ...


class TestOutputTopic(Generic[K, V]):
    """Reads the records of one output topic, each once. Reading past the last one raises `NoSuchElementError`."""

    __test__ = False  # not a test class of pytest

    def __init__(self, driver: _Outputs, topic: str, key_serde: Any, value_serde: Any) -> None:
        key_deserializer, value_deserializer = as_deserializer(as_serde(key_serde)), as_deserializer(as_serde(value_serde))
        if topic is None:
            raise ValueError("the topic of create_output_topic() cannot be None: give its name")
        if key_deserializer is None or value_deserializer is None:
            raise ValueError(f"topic {topic} needs a key_serde and a value_serde: pass serdes or deserializers")
        self._driver = driver
        self._topic = topic
        self._key_deserializer = key_deserializer
        self._value_deserializer = value_deserializer

    def read_record(self) -> Record[K, V]:
        """Return the next record, with timestamp and headers."""
        return deserialized(self._driver.read_record(self._topic), self._key_deserializer, self._value_deserializer)

    def read_value(self) -> V:
        """Return the value of the next record."""
        return self.read_record().value

    def read_key_value(self) -> tuple[K, V]:
        """Return key and value of the next record."""
        record = self.read_record()
        return record.key, record.value

    def read_records(self) -> list[Record[K, V]]:
        """Return all remaining records."""
        return [self.read_record() for _ in range(self.queue_size)]

    def read_values(self) -> list[V]:
        """Return the values of all remaining records."""
        return [record.value for record in self.read_records()]

    def read_key_values(self) -> list[tuple[K, V]]:
        """Return keys and values of all remaining records."""
        return [(record.key, record.value) for record in self.read_records()]

    def read_key_values_to_map(self) -> dict[K, V]:
        """Return all remaining records as a dictionary. The last record of a key counts."""
        records = self.read_records()
        if any(record.key is None for record in records):
            raise ValueError(f"topic {self._topic} has a record without a key, which read_key_values_to_map() cannot show")
        return {record.key: record.value for record in records}

    # Kafka Streams' names
    read_records_to_list = read_records
    read_values_to_list = read_values
    read_key_values_to_list = read_key_values

    @property
    def queue_size(self) -> int:
        """The number of remaining records."""
        return self._driver.queue_size(self._topic)

    @property
    def is_empty(self) -> bool:
        """True if no record remains."""
        return self.queue_size == 0

    def __repr__(self) -> str:
        return f"TestOutputTopic(topic={self._topic!r}, size={self.queue_size})"


def deserialized(raw: ProducedRecord, key_deserializer: Any, value_deserializer: Any) -> Record[Any, Any]:
    """Deserialize a record with serdes or deserializers."""
    key_half, value_half = as_deserializer(as_serde(key_deserializer)), as_deserializer(as_serde(value_deserializer))
    if key_half is None or value_half is None:
        raise ValueError(f"a record of topic {raw.topic} needs a key_deserializer and a value_deserializer to be read: give both")
    key = call_with_headers(key_half, raw.topic, raw.key, raw.headers)
    value = call_with_headers(value_half, raw.topic, raw.value, raw.headers)
    return Record(key, value, raw.timestamp, raw.headers)
