"""`penstock demo`: WordCount end to end, with its own broker and Spark."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.client.process_end import StopSignal
from penstock.commands.common import INTERRUPTED, fail, quiet_clients, report_errors
from penstock.commands.demo_view import View
from penstock.errors import StreamsError

if TYPE_CHECKING:
    from penstock.client.kafka_streams import KafkaStreams
    from penstock.commands.demo_words import CountReader, Feeder

_SECONDS, _RATE = 20.0, 1_000
_START_TIMEOUT, _DRAIN_TIMEOUT = 180.0, 120.0
_PARTITIONS = 4


def demo(
    name: Annotated[str, typer.Argument(metavar="[wordcount]", help="The demo to run.", show_default=False)] = "wordcount",
    seconds: Annotated[
        float | None, typer.Option(min=1, help="Duration of the input. Default: 20 without --records.", show_default=False)
    ] = None,
    records: Annotated[int | None, typer.Option(min=1, help="Number of input lines, written at full speed.")] = None,
    rate: Annotated[
        int | None, typer.Option(min=1, help="Input lines per second. Default: 1000 without --records.", show_default=False)
    ] = None,
) -> None:
    """Count words end to end, exactly once, with Kafka and Spark.

    Starts a real broker, writes lines, runs WordCount on Spark, shows the top words with throughput and latency, and ends
    after checking that every word was counted once. Nothing is left behind.
    """
    if name != "wordcount":
        fail(f"There is no demo {name!r}. Available: wordcount", code=2)
    if seconds is None and records is None:
        seconds = _SECONDS
    if rate is None and records is None:
        rate = _RATE
    with report_errors(), StopSignal() as stop:
        quiet_clients()
        if not _Demo(seconds, records, rate, stop).run():
            raise typer.Exit(INTERRUPTED if stop.is_set() else 1)


class _Demo:
    """One run.

    1. Start a broker and create the topics.
    2. Start the application, wait until it runs, and print the console's address.
    3. Write lines and show the counts until the duration or the number of lines is reached.
    4. Wait until all lines are counted, and close.
    5. Compare the counts with the input.
    """

    def __init__(self, seconds: float | None, records: int | None, rate: int | None, stop: StopSignal) -> None:
        self._seconds, self._records, self._rate, self._stop = seconds, records, rate, stop
        self._view = View()

    def run(self) -> bool:
        """Run the demo. Returns True if all counts are right."""
        with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder, ExitStack() as cleanup:
            bootstrap = self._start_broker(cleanup)
            streams = self._start_application(cleanup, bootstrap, Path(folder))
            feeder, reader = self._start_words(cleanup, bootstrap)
            self._watch(streams, feeder, reader)
            self._view.step("closing")
        return self._view.summary(feeder, reader)

    def _start_broker(self, cleanup: ExitStack) -> str:
        from penstock.commands.demo_words import LINES, WORD_COUNTS
        from penstock.kafka.admin import Admin
        from penstock.kafka.dev_broker import DevBroker

        self._view.step("starting a Kafka broker (the first time ever it is downloaded: 38 MB)")
        broker = cleanup.enter_context(DevBroker())
        admin = Admin({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        for topic in (LINES, WORD_COUNTS):
            admin.create_topic(topic, _PARTITIONS, {}, 1)
        return broker.bootstrap_servers

    def _start_application(self, cleanup: ExitStack, bootstrap: str, folder: Path) -> KafkaStreams:
        from penstock.client.kafka_streams import KafkaStreams
        from penstock.commands.demo_words import wordcount
        from penstock.spark.driver.session import end_session, make_session, quiet_jvm

        config: dict[str, Any] = {
            "application.id": "penstock-demo",
            "bootstrap.servers": bootstrap,
            "processing.guarantee": "exactly_once_v2",
            "state.dir": str(folder / "state"),
            "admin.log_level": 0,
            "application.server": "localhost:0",
        }
        self._view.step("starting Spark")
        with quiet_jvm(folder / "spark.log"):
            spark = make_session(config["application.id"], {})
        self._stop.arm()
        cleanup.callback(end_session, spark)
        streams = KafkaStreams(wordcount(), config, spark)
        cleanup.callback(streams.close)
        self._view.step("starting WordCount, exactly once")
        streams.start()
        self._wait_until_running(streams)
        self._view.page(f"http://{streams.server_host}/")
        return streams

    def _wait_until_running(self, streams: Any) -> None:
        deadline = time.monotonic() + _START_TIMEOUT
        while streams.state.name != "RUNNING":
            _refuse_failure(streams)
            if self._stop.wait(0.1):
                raise KeyboardInterrupt
            if time.monotonic() > deadline:
                raise StreamsError(f"the demo did not start to run within {_START_TIMEOUT:.0f} s")

    def _start_words(self, cleanup: ExitStack, bootstrap: str) -> tuple[Feeder, CountReader]:
        from penstock.commands.demo_words import CountReader, Feeder

        reader = CountReader(bootstrap, _PARTITIONS)
        cleanup.callback(reader.close)
        feeder = Feeder(bootstrap, self._seconds, self._records, self._rate)
        cleanup.callback(feeder.close)
        reader.start()
        feeder.start()
        return feeder, reader

    def _watch(self, streams: KafkaStreams, feeder: Feeder, reader: CountReader) -> None:
        deadline: float | None = None
        with self._view.live():
            while reader.words < feeder.words or feeder.is_feeding:
                _refuse_failure(streams)
                if self._stop.is_set():
                    feeder.stop()
                if not feeder.is_feeding:
                    deadline = deadline or time.monotonic() + _DRAIN_TIMEOUT
                    if time.monotonic() > deadline:
                        break
                self._view.show(feeder, reader)
                time.sleep(0.1)
            self._view.show(feeder, reader, last=True)


def _refuse_failure(streams: KafkaStreams) -> None:
    if streams.failure is not None:
        raise StreamsError(f"the demo's application failed: {streams.failure}")
