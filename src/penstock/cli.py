"""The command line: `penstock …`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock import __version__
from penstock.commands.app_reference import AppReferenceError, load_topology
from penstock.commands.backfill import backfill
from penstock.commands.broker import broker
from penstock.commands.common import Reference, Settings, fail, parse_settings, say
from penstock.commands.consume import consume
from penstock.commands.demo import demo
from penstock.commands.example import example
from penstock.commands.logs import logs
from penstock.commands.produce import produce
from penstock.commands.query import query
from penstock.commands.reset import reset
from penstock.commands.run import run
from penstock.commands.status import status
from penstock.commands.top import top
from penstock.commands.topics import topics
from penstock.commands.warm_up import warm_up
from penstock.drawing.picture import draw_topology
from penstock.errors import PenstockError

app = typer.Typer(
    name="penstock",
    help="Kafka Streams for Python, on Apache Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        say(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def penstock(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Kafka Streams for Python, on Apache Spark."""


@app.command()
def describe(
    topology: Reference,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw a picture into this file instead.")] = None,
    settings: Settings = None,
) -> None:
    """Print a topology, or draw it."""
    config = parse_settings(settings or [])
    try:
        loaded = load_topology(topology, config)
        description = loaded.describe()
    except AppReferenceError as exc:
        fail(str(exc), code=2)
    except PenstockError as exc:
        fail(f"{topology}: {exc}", code=1)
    if svg is None:
        say(str(description).rstrip("\n"))
        return
    try:
        svg.write_text(draw_topology(description, title=topology), encoding="utf-8")
    except OSError as exc:
        fail(f"cannot write {svg}: {exc.strerror or exc}", code=1)
    say(f"wrote {svg}")


for _command in (demo, example, broker, run, backfill, status, top, logs, query, reset, produce, consume, warm_up):
    app.command()(_command)
app.add_typer(topics)


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
