"""`penstock broker`: a development broker."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from penstock.client.process_end import StopSignal
from penstock.commands.common import fail, report_errors, say
from penstock.commands.progress import busy

_USUAL_PORT = 9092


def broker(
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="The port to listen on, 0 for any. Default: 9092 if it is free.", show_default=False),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the data here. By default they are deleted at the end.")
    ] = None,
) -> None:
    """Run a real single-node Kafka for development until Ctrl-C.

    Prints `ready HOST:PORT` when it serves. The first start downloads Kafka (38 MB).
    """
    from penstock.kafka.dev_broker import DevBroker

    if port and not _is_free(port):
        fail(f"Port {port} is in use. Stop the program that listens there, or choose another --port")
    if port is None:
        port = _USUAL_PORT if _is_free(_USUAL_PORT) else 0
    with report_errors(), StopSignal() as stop, ExitStack() as stack:
        with busy("starting Kafka; the very first start downloads it"):
            running = stack.enter_context(DevBroker(port, data))
        say(f"ready {running.bootstrap_servers}")
        while not stop.wait(0.5):
            if not running.is_running:
                fail("The broker ended unexpectedly" + (f"; see {data}/broker.log" if data else ""))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
