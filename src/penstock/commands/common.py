"""Shared by all commands: settings, errors and exit codes, tables."""

from __future__ import annotations

import importlib
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.commands.app_reference import AppReferenceError, import_from_here
from penstock.config.properties import parse_properties
from penstock.config.streams_config import StreamsConfig, UnknownConfigWarning
from penstock.errors import ConfigError, PenstockError
from penstock.printable import printable, printable_lines

# in the standard library from Python 3.11 on
tomllib: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130

Reference = Annotated[
    str, typer.Argument(metavar="MODULE:TOPOLOGY", help="A Topology, a StreamsBuilder, or a function that returns one.")
]
Settings = Annotated[
    list[str] | None, typer.Option("-c", "--set", metavar="KEY=VALUE", help="A configuration setting. Can be repeated.")
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="A TOML or .properties file with settings. -c overrides it.", dir_okay=False),
]


def parse_settings(settings: list[str]) -> dict[str, str]:
    """Parse settings of the form `key=value`.

    >>> parse_settings(["application.id=shop"])
    {'application.id': 'shop'}
    """
    config = {}
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator or not key.strip():
            fail(f"{setting!r} is not of the form key=value, for example -c topology.optimization=all", WRONG_USE)
        config[key.strip()] = value.strip()
    return config


def read_settings(file: Path | None, settings: list[str] | None) -> dict[str, Any]:
    """Return the settings of a file and the command line. The command line takes precedence."""
    return {**(_read_file(file) if file is not None else {}), **parse_settings(settings or [])}


def _read_file(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as exc:
        fail(f"cannot read {file}: {exc.strerror or exc}", WRONG_USE)
    except UnicodeDecodeError:
        fail(f"cannot read {file}: it is not UTF-8", WRONG_USE)
    if file.suffix == ".properties":
        try:
            return dict(parse_properties(text))
        except ValueError as exc:
            fail(f"{file} is not a properties file: {exc}", WRONG_USE)
    try:
        return flatten(tomllib.loads(text))
    except tomllib.TOMLDecodeError as exc:
        hint = '. Write "application.server" and "config.providers" in quotes: other keys begin with them'
        fail(f"{file} is not TOML: {exc}{hint if 'overwrite' in str(exc) else ''}", WRONG_USE)


def flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Convert TOML tables to Kafka's dotted keys.

    >>> flatten({"application": {"id": "shop"}, "poll.ms": 50})
    {'application.id': 'shop', 'poll.ms': 50}
    """
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            found |= flatten(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def streams_config(file: Path | None, settings: list[str] | None, defaults: Mapping[str, Any] | None = None) -> StreamsConfig:
    """Return the configuration of an application. Unknown keys are only logged."""
    import_from_here()  # settings may contain import paths
    merged = {**(defaults or {}), **read_settings(file, settings)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownConfigWarning)
        return StreamsConfig(merged)


def say(text: str, *, err: bool = False) -> None:
    """Print text, possibly from records, brokers or other processes. Control characters are escaped."""
    typer.echo(printable_lines(text), err=err)


def fail(message: str, code: int = FAILED) -> NoReturn:
    """Print an error and end the command: exit code 2 for wrong usage, 1 for a failure."""
    say(f"penstock: {message}", err=True)
    raise typer.Exit(code)


@contextmanager
def report_errors() -> Iterator[None]:
    """End the command with an error line, without a traceback, for errors that explain themselves."""
    try:
        yield
    except (AppReferenceError, ConfigError) as exc:
        fail(str(exc), WRONG_USE)
    except PenstockError as exc:
        fail(str(exc))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def quiet_clients() -> None:
    """Silence kafka-python, which logs every lost connection. Important errors are raised."""
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    logging.getLogger("py4j").setLevel(logging.ERROR)


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table: formatted on a terminal, aligned plain columns otherwise."""
    texts = [["" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    console = Console()
    if console.is_terminal:
        table = Table(*columns, title=Text(printable(title)), title_justify="left")
        for row in texts:
            table.add_row(*map(Text, row))  # Text: user names must not be interpreted as markup
        console.print(table)
        return
    widths = [max(map(len, column)) for column in zip(columns, *texts)]
    for line in [columns, *texts]:
        say("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
