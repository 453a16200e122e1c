"""`penstock backfill`: process what there is, with a bar that shows how far it has come."""

from __future__ import annotations

import logging
import sys
import threading
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn

from penstock.client.process_end import StopSignal
from penstock.commands.app_reference import load_topology
from penstock.commands.common import (
    WRONG_USE,
    ConfigFile,
    Reference,
    Settings,
    fail,
    quiet_clients,
    report_errors,
    say,
    streams_config,
)
from penstock.commands.progress import StandardErrorHandler
from penstock.commands.run import LOG_FORMAT, level_of, make_importable

if TYPE_CHECKING:
    from penstock.client.kafka_streams import KafkaStreams
    from penstock.client.scheduling.bounded_run import BoundedProgress

_LOOK_SECONDS = 0.2


def backfill(
    topology: Reference,
    config: ConfigFile = None,
    settings: Settings = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Process records before this time (ISO 8601) instead of all that there are."),
    ] = None,
    then_live: Annotated[bool, typer.Option("--then-live", help="Go live at the end, instead of ending with 0.")] = False,
    log_level: Annotated[str, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")] = "INFO",
) -> None:
    """Process all input that there is when the command starts, and end with 0; `penstock run` continues there.

    A command that was stopped or has failed continues from its last commit. Ends with 1 if the application failed, with 130 if
    it was stopped before the backfill was complete.
    """
    with report_errors():
        level = level_of(log_level)
        end = _moment(until)
        make_importable(topology)
        merged = streams_config(config, settings)
        loaded = load_topology(topology, merged.originals)
        logging.basicConfig(level=level, format=LOG_FORMAT, handlers=[StandardErrorHandler()])
        quiet_clients()
        from penstock.client.kafka_streams import KafkaStreams

        with StopSignal() as stop:
            _run(KafkaStreams(loaded, merged), end, then_live, stop)


def _moment(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        fail(f"--until {text} is not a time, such as 2026-01-31T00:00:00+00:00", WRONG_USE)


def _run(streams: KafkaStreams, until: datetime | None, then_live: bool, stop: StopSignal) -> None:
    failures: list[BaseException] = []
    done = threading.Event()

    def work() -> None:
        try:
            streams.backfill(until, then_live)
        except BaseException as exc:  # noqa: BLE001 - the command tells it
            failures.append(exc)
        finally:
            done.set()

    threading.Thread(target=work, name="penstock-backfill", daemon=True).start()
    bar, is_armed = _Bar(), False
    try:
        while not done.wait(_LOOK_SECONDS) and not stop.is_set():
            if not is_armed and streams.state.name == "RUNNING":
                is_armed = True
                stop.arm()  # a SparkContext takes the signals when it is made
            bar.show(streams.backfill_progress)
        was_stopped = stop.is_set() and not done.is_set()
    finally:
        bar.close()
    if failures:
        fail(str(failures[0]))
    if was_stopped:
        streams.close()
        say("stopped before the backfill was complete; it continues from the last commit", err=True)
        raise typer.Exit(130)
    say("backfill complete")
    if then_live:
        say("running")
        while not stop.wait(_LOOK_SECONDS) and not streams.state.has_completed_shutdown:
            pass
        streams.close()
        if streams.failure is not None:
            fail(f"the application failed: {streams.failure}")


class _Bar:
    """A bar on a terminal: records, share, rate and time left."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stderr)
        self._progress: Progress | None = None

    def show(self, progress: BoundedProgress | None) -> None:
        """Show how far it has come."""
        if progress is None or not progress.total or not self._console.is_terminal:
            return
        if self._progress is None:
            columns = (
                TextColumn("backfill"),
                BarColumn(),
                TaskProgressColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.description}"),
            )
            self._progress = Progress(*columns, console=self._console, transient=True)
            self._progress.add_task("")
            self._progress.start()
        self._progress.update(
            self._progress.task_ids[0], total=progress.total, completed=progress.done, description=str(progress)
        )

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._progress is not None:
            self._progress.stop()
