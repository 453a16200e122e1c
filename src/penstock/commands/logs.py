"""`penstock logs`: print the warnings and errors of a running application and its workers, and its dead letters."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import Annotated, Any, NamedTuple

import typer

from penstock.client.process_end import StopSignal
from penstock.commands.common import ConfigFile, Settings, fail, report_errors, say
from penstock.commands.instance import Server, instance
from penstock.commands.query import shown_time
from penstock.dead_letters import DeadLetter
from penstock.errors import StateStoreNotAvailableError

_LEVELS = ("WARNING", "ERROR", "CRITICAL")
_EVERY = 1.0


class Line(NamedTuple):
    """A log line or a dead letter."""

    time: int
    level: str
    text: str


def logs(
    server: Server = None,
    config: ConfigFile = None,
    settings: Settings = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines until Ctrl-C.")] = False,
    level: Annotated[str, typer.Option(help="The lowest level to print: WARNING or ERROR.")] = "WARNING",
    grep: Annotated[str, typer.Option(metavar="TEXT", help="Only lines that contain this text, ignoring case.")] = "",
) -> None:
    """Print the last warnings, errors and dead letters of an instance and its workers, oldest first."""
    if level.upper() not in _LEVELS:
        fail(f"--level {level} is not one of {', '.join(_LEVELS)}", code=2)
    with report_errors(), StopSignal() as stop:
        servers = instance(server, config, settings)
        told: Counter[Line] = Counter()
        while True:
            try:
                found = Counter(lines_of(servers.get("/api/app")))
            except StateStoreNotAvailableError:
                if not told:
                    raise
                found = told  # no answer for a moment: continue with the next one
            for line in sorted((found - told).elements(), key=lambda line: line.time):
                if _LEVELS.index(line.level) >= _LEVELS.index(level.upper()) and grep.lower() in line.text.lower():
                    text = line.text.replace("\n", "\n    ")  # continuation lines are indented
                    say(f"{shown_time(line.time)} {line.level:<8} {text}")
            told = found
            if not follow or stop.wait(_EVERY):
                return


def lines_of(application: dict[str, Any]) -> list[Line]:
    """Return the errors and dead letters of `/api/app` as lines, oldest first.

    >>> lines_of({"errors": [{"time": 7, "level": "ERROR", "message": "no"}], "dead_letters": []})
    [Line(time=7, level='ERROR', text='no')]
    """
    lines = [Line(error["time"], _known(error["level"]), error["message"]) for error in application.get("errors", [])]
    for letter in application.get("dead_letters", []):
        known = {field.name: letter.get(field.name) for field in fields(DeadLetter)}
        lines.append(Line(letter["time"], "WARNING", str(DeadLetter(**known))))
    return sorted(lines, key=lambda line: line.time)


def _known(level: str) -> str:
    return level if level in _LEVELS else "WARNING"
