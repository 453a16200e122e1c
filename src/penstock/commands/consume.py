"""`penstock consume`: print the records of a topic."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from penstock.client.process_end import StopSignal
from penstock.commands.brokers import broker_config, open_admin, partitions_of
from penstock.commands.common import INTERRUPTED, ConfigFile, Settings, fail, quiet_clients, report_errors, say
from penstock.commands.produce import KeySerde, Topic, ValueSerde
from penstock.commands.progress import busy
from penstock.commands.text_serdes import TextSerde
from penstock.config.streams_config import StreamsConfig
from penstock.errors import SerializationError

_CLIENT = "penstock-consume"


def consume(
    topic: Topic,
    key: KeySerde = None,
    value: ValueSerde = "string",
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Start with the first record of the topic.")] = False,
    most: Annotated[int | None, typer.Option("--max", min=1, metavar="N", help="Stop after N records.")] = None,
    config: ConfigFile = None,
    settings: Settings = None,
) -> None:
    """Print the committed records that arrive in a topic, until Ctrl-C.

    A line has the value, or with --key the key and the value separated by a tab. null stands for a missing value. Control
    characters are escaped. Exits with 1 at a record that the serdes cannot read. The brokers are those of the setting
    bootstrap.servers, localhost:9092 by default.
    """
    with report_errors(), StopSignal() as stop:
        quiet_clients()
        keys = None if key is None else TextSerde.named(key, "--key")
        values = TextSerde.named(value, "--value")
        merged = broker_config(config, settings, _CLIENT)
        with busy("asking the brokers"):
            partitions = partitions_of(open_admin(merged, _CLIENT), topic)
        consumer = _consumer(merged, topic, partitions, from_beginning)
        try:
            left = most
            while left != 0 and not stop.is_set():
                for message in consumer.consume(500 if left is None else min(left, 500), 0.2):
                    if message.error() is None:
                        say(_line(message, keys, values))
                        left = None if left is None else left - 1
                    else:
                        _refuse(message.error(), topic)
        finally:
            consumer.close()
        if left:
            raise typer.Exit(INTERRUPTED)


def _consumer(config: StreamsConfig, topic: str, partitions: int, from_beginning: bool) -> Any:
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, TopicPartition

    from penstock.kafka.clients import consumer_config, open_client

    # librdkafka requires a group id, but the consumer joins no group.
    own = {"group.id": _CLIENT, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    consumer = open_client("consumer", Consumer, {**consumer_config(config, _CLIENT), **own})
    start = OFFSET_BEGINNING if from_beginning else OFFSET_END
    consumer.assign([TopicPartition(topic, number, start) for number in range(partitions)])
    return consumer


def _line(message: Any, keys: TextSerde | None, values: TextSerde) -> str:
    topic = message.topic()
    part = "key"
    try:
        start = "" if keys is None else f"{keys.decode(topic, message.key())}\t"
        part = "value"
        return start + values.decode(topic, message.value())
    except SerializationError as exc:
        where = f"{topic}-{message.partition()} @ {message.offset()}"
        fail(f"Reading the {part} of the record at {where} failed: {exc}. Choose another --{part} serde; bytes shows any record")


def _refuse(error: Any, topic: str) -> None:
    """End the command, unless the client recovers by itself, as after a lost connection."""
    from confluent_kafka import KafkaError

    from penstock.kafka.clients import is_access_error, refused

    if is_access_error(error):
        raise refused(f"reading topic {topic}", error)
    if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC):
        fail(f"The topic {topic} was deleted")
