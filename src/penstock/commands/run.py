"""`penstock run`: run an application in the foreground."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.client.process_end import StopSignal
from penstock.commands.app_reference import load_topology
from penstock.commands.common import (
    ConfigFile,
    Reference,
    Settings,
    fail,
    quiet_clients,
    report_errors,
    say,
    streams_config,
)
from penstock.commands.progress import RestoreBars, StandardErrorHandler
from penstock.config.streams_config import StreamsConfig

LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


def run(
    topology: Reference,
    config: ConfigFile = None,
    settings: Settings = None,
    create_topics: Annotated[bool, typer.Option("--create-topics", help="Create missing source and sink topics.")] = False,
    log_level: Annotated[str, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")] = "INFO",
) -> None:
    """Run an application until Ctrl-C or SIGTERM, then close it cleanly.

    Prints `running` when it processes, with the address of its console if application.server is set. Exits with 0 after a
    clean close, and with 1 if the application failed.
    """
    with report_errors():
        level = level_of(log_level)
        make_importable(topology)
        merged = streams_config(config, settings)
        loaded = load_topology(topology, merged.originals)
        logging.basicConfig(level=level, format=LOG_FORMAT, handlers=[StandardErrorHandler()])
        logging.getLogger("uvicorn").setLevel(max(level, logging.WARNING))  # its process ids and sockets mean nothing to a reader
        quiet_clients()
        with StopSignal() as stop:
            if create_topics:
                _create_topics(loaded, merged)
            _run(loaded, merged, stop)


def _create_topics(topology: Any, config: StreamsConfig) -> None:
    from penstock.client.missing_topics import missing_topics
    from penstock.kafka.admin import Admin
    from penstock.kafka.clients import admin_config

    admin = Admin(admin_config(config, f"{config['application.id']}-topics"))
    for topic, partitions in missing_topics(topology, config, admin.partition_counts()).items():
        admin.create_topic(topic, partitions, {})
        say(f"created topic {topic}")


def _run(topology: Any, config: StreamsConfig, stop: StopSignal) -> None:
    from penstock.client.kafka_streams import KafkaStreams

    streams = KafkaStreams(topology, config)
    bars = RestoreBars()
    if sys.stderr.isatty():
        streams.set_global_state_restore_listener(bars)  # type: ignore[arg-type]  # importing its base class would load Spark for --help
    try:
        streams.start()
        stop.arm()
        is_said = False
        while not stop.wait(0.2):
            if streams.state.has_completed_shutdown:
                break
            if not is_said and streams.state.name == "RUNNING":
                is_said = True
                say(_running(streams.server_host, config))
    finally:
        bars.close()
    streams.close()
    if streams.failure is not None:
        fail(f"the application {config['application.id']} failed: {streams.failure}")


def _running(host: Any, config: StreamsConfig) -> str:
    if host is None:
        return "running"
    scheme = "http" if config["application.server.ssl.certificate.location"] is None else "https"
    return f"running, console at {scheme}://{host}/"


def make_importable(reference: str) -> None:
    """Put a file's folder on the path, because workers import the application's module by name."""
    file = Path(reference.rpartition(":")[0])
    if file.suffix == ".py" and file.is_file():
        sys.path.insert(0, str(file.resolve().parent))


def level_of(name: str) -> int:
    """The number of a log level; ends the command if there is no such level."""
    number = logging.getLevelName(name.upper())
    if not isinstance(number, int):
        fail(f"--log-level {name} is not one of DEBUG, INFO, WARNING, ERROR", code=2)
    return number
