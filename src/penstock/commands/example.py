"""`penstock example`: run one of the examples with sample input."""

from __future__ import annotations

import inspect
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.client.process_end import StopSignal
from penstock.commands.common import (
    INTERRUPTED,
    ConfigFile,
    Settings,
    fail,
    quiet_clients,
    read_settings,
    report_errors,
    say,
    show_table,
)
from penstock.commands.demo_view import View
from penstock.errors import StreamsError

if TYPE_CHECKING:
    from penstock.client.kafka_streams import KafkaStreams
    from penstock_examples._samples import Sample

_SECONDS = 180.0
_QUIET_SECONDS, _LOOK_SECONDS = 2.0, 0.5


def example(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The example. Without it all are listed.")] = None,
    config: ConfigFile = None,
    settings: Settings = None,
    once: Annotated[bool, typer.Option("--once", help="Exit when the sample is processed.")] = False,
    source: Annotated[bool, typer.Option("--source", help="Print the example's code and exit.")] = False,
) -> None:
    """Run an example, on its own broker or on yours with -c bootstrap.servers=….

    Creates missing topics, writes a sample into the new ones, prints the output, and runs until Ctrl-C.
    """
    from penstock_examples._samples import EXAMPLES, SAMPLES, module_of

    if name is None:
        rows = [(known, (inspect.getdoc(module_of(known)) or "").splitlines()[0]) for known in EXAMPLES]
        show_table("Examples", ("NAME", "WHAT IT DOES"), rows)
        return
    if name not in SAMPLES:
        fail(f"There is no example {name!r}. Available: {', '.join(EXAMPLES)}", code=2)
    if source:
        say(inspect.getsource(module_of(name)).rstrip("\n"))
        return
    with report_errors(), StopSignal() as stop:
        quiet_clients()
        _Run(name, SAMPLES[name], read_settings(config, settings), once, stop).run()
        if once and stop.is_set():
            raise typer.Exit(INTERRUPTED)


class _Run:
    """One run.

    1. Start a broker, unless one is configured.
    2. Create the topics, and write the sample into new ones.
    3. Start the application.
    4. Print its output until it has read everything, or until Ctrl-C.
    """

    def __init__(self, name: str, sample: Sample, settings: dict[str, Any], once: bool, stop: StopSignal) -> None:
        self._name, self._sample, self._once, self._stop = name, sample, once, stop
        self._settings = {"application.id": f"example-{name.replace('_', '-')}", "application.server": "localhost:0", **settings}
        self._view = View()

    def run(self) -> None:
        with tempfile.TemporaryDirectory(prefix="penstock-example-") as folder, ExitStack() as cleanup:
            if "bootstrap.servers" not in self._settings:
                self._settings |= {"bootstrap.servers": self._start_broker(cleanup), "state.dir": str(Path(folder) / "state")}
                self._settings.setdefault("processing.guarantee", "exactly_once_v2")
            fed = self._make_topics()
            streams = self._start_application(cleanup, Path(folder))
            self._print_outputs(cleanup, streams, fed)
            self._view.step("closing")

    def _start_broker(self, cleanup: ExitStack) -> str:
        from penstock.kafka.dev_broker import DevBroker

        self._view.step("starting a Kafka broker (the first time ever it is downloaded: 38 MB)")
        return cleanup.enter_context(DevBroker()).bootstrap_servers

    def _make_topics(self) -> set[str]:
        """Create missing topics. Returns the input topics with sample records."""
        from confluent_kafka import Producer

        from penstock.config.streams_config import StreamsConfig
        from penstock.kafka.admin import Admin
        from penstock.kafka.clients import admin_config, producer_config

        config = StreamsConfig(self._settings)
        admin = Admin(admin_config(config, f"{config['application.id']}-topics"))
        there = admin.partition_counts()
        missing = [topic for topic in self._sample.topics if topic not in there]
        for topic in missing:
            admin.create_topic(topic, 1, {})
        fed = {topic for topic in missing if topic in self._sample.inputs}
        kept = sorted(set(self._sample.inputs) - fed)
        if kept:
            self._view.step(f"no sample is written into existing topics: {', '.join(kept)}")
        producer = Producer(producer_config(config, f"{config['application.id']}-sample"))
        for record in self._sample.records(time.time_ns() // 1_000_000):
            if record.topic in fed:
                producer.produce(record.topic, record.value, record.key, partition=0, timestamp=record.timestamp)
        producer.flush(30)
        self._view.step(f"topics: {', '.join(self._sample.topics)}")
        return fed

    def _start_application(self, cleanup: ExitStack, folder: Path) -> KafkaStreams:
        from penstock.client.kafka_streams import KafkaStreams
        from penstock.spark.driver.session import end_session, make_session, quiet_jvm
        from penstock_examples._samples import module_of

        self._view.step("starting Spark")
        with quiet_jvm(folder / "spark.log"):
            spark = make_session(
                self._settings["application.id"], {k: v for k, v in self._settings.items() if k.startswith("spark.")}
            )
        self._stop.arm()
        cleanup.callback(end_session, spark)
        streams = KafkaStreams(module_of(self._name).topology(), self._settings, spark)
        cleanup.callback(streams.close)
        self._view.step(f"starting {self._name}")
        streams.start()
        deadline = time.monotonic() + _SECONDS
        while streams.state.name != "RUNNING":
            _refuse_failure(streams)
            if self._stop.wait(0.1):
                raise KeyboardInterrupt
            if time.monotonic() > deadline:
                raise StreamsError(f"The example did not start within {_SECONDS:.0f} s; it is {streams.state.name}")
        self._view.page(f"http://{streams.server_host}/")
        return streams

    def _print_outputs(self, cleanup: ExitStack, streams: KafkaStreams, fed: set[str]) -> None:
        outputs = _Outputs(self._settings, self._sample)
        cleanup.callback(outputs.close)
        if not self._sample.outputs:
            for store in self._sample.stores:
                self._view.step(
                    f"it has no output topic. Query its stores: penstock query --server {streams.server_host} {store} ada"
                )
        deadline = time.monotonic() + _SECONDS
        done = False
        while not self._stop.is_set():
            _refuse_failure(streams)
            found = outputs.take()
            for line in found:
                say(line)
            if not done and not found and outputs.all_read(fed):
                done = True
                if self._once:
                    return
                self._view.step(
                    f"the sample is processed. {self._name} keeps running: write into {', '.join(self._sample.inputs)}, "
                    "or stop it with Ctrl-C"
                )
            if self._once and time.monotonic() > deadline:
                raise StreamsError(f"{self._name} did not process its sample within {_SECONDS:.0f} s")


class _Outputs:
    """Reads committed records of the output topics, and the progress of the application."""

    def __init__(self, settings: dict[str, Any], sample: Sample) -> None:
        from confluent_kafka import Consumer, TopicPartition

        from penstock.config.streams_config import StreamsConfig
        from penstock.kafka.admin import Admin
        from penstock.kafka.clients import admin_config, consumer_config
        from penstock.kafka.groups import Groups

        self._config, self._sample = StreamsConfig(settings), sample
        client_id = f"{self._config['application.id']}-reader"
        self._admin = Admin(admin_config(self._config, client_id))
        self._groups = Groups(self._config, client_id)
        own = {"isolation.level": "read_committed", "auto.offset.reset": "earliest", "group.id": client_id}
        self._consumer = Consumer({**consumer_config(self._config, client_id), **own})
        partitions = self._admin.partition_counts(sample.outputs) if sample.outputs else {}
        self._consumer.assign(
            [TopicPartition(topic, number, 0) for topic, count in partitions.items() for number in range(count)]
        )
        self._looked = 0.0
        self._quiet_since = time.monotonic()

    def take(self) -> list[str]:
        """Return new records as lines."""
        lines = []
        for message in self._consumer.consume(500, 0.3):
            if message.error() is None:
                keys, values = self._sample.outputs[message.topic()]
                key = keys.deserializer(message.topic(), message.key())
                value = values.deserializer(message.topic(), message.value())
                lines.append(f"{message.topic()}: {key} = {value}")
        if lines:
            self._quiet_since = time.monotonic()
        return lines

    def all_read(self, fed: set[str]) -> bool:
        """Return True if the application has read all input, including internal topics, and has written nothing for a moment."""
        now = time.monotonic()
        if now - self._quiet_since < _QUIET_SECONDS or now - self._looked < _LOOK_SECONDS:
            return False
        self._looked = now
        committed = self._groups.committed(self._config["application.id"])
        if not fed <= {partition.topic for partition in committed}:
            return False
        ends = self._admin.log_ends(list(committed), committed_only=True)
        return all(committed[partition] >= end for partition, end in ends.items())

    def close(self) -> None:
        self._consumer.close()
        self._groups.__exit__()


def _refuse_failure(streams: KafkaStreams) -> None:
    if streams.failure is not None:
        raise StreamsError(f"the example's application failed: {streams.failure}")
