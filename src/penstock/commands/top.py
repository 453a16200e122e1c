"""`penstock top`: show a running application on one screen."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.client.process_end import StopSignal
from penstock.commands.common import ConfigFile, Settings, report_errors
from penstock.commands.instance import Server, instance
from penstock.commands.logs import lines_of
from penstock.commands.query import shown_time
from penstock.errors import StateStoreNotAvailableError
from penstock.printable import printable_lines

_COLOURS = {"RUNNING": "green", "REBALANCING": "yellow", "RESTORING": "yellow", "ERROR": "red", "PENDING_ERROR": "red"}
_LOG_LINES = 4
_FIXED = 16
"""Lines of the screen that are not available for the tables of tasks and partitions."""
_WIDTH = 100


def top(
    server: Server = None,
    config: ConfigFile = None,
    settings: Settings = None,
    interval: Annotated[float, typer.Option(min=0.2, help="Seconds between updates.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print once and exit. This is the default in a pipe.")] = False,
) -> None:
    """Watch a running application: rates, lag, threads, tasks, restoration, the last warnings. Ctrl-C ends it."""
    with report_errors(), StopSignal() as stop:
        servers = instance(server, config, settings)
        console = Console()
        application = servers.get("/api/app")
        if once or not console.is_terminal:
            width = console.width if console.is_terminal else _WIDTH
            Console(width=width, highlight=False).print(overview(application, rows=None))
            return
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(overview(application, rows=max(4, console.height - _FIXED)), refresh=True)
                if stop.wait(interval):
                    return
                try:
                    application = servers.get("/api/app")
                except StateStoreNotAvailableError as exc:
                    application = {**application, "state": "NOT ANSWERING", "failure": str(exc)}


def overview(application: dict[str, Any], rows: int | None) -> RenderableType:
    """Return the whole screen. `rows` limits the lines of all tables; None means no limit."""
    application = _safe(application)
    tasks = [task for task in application["tasks"] if task["role"] != "elsewhere"]
    behind = sorted((p for p in application["partitions"] if p["lag"]), key=lambda p: -p["lag"])
    half = None if rows is None else max(2, rows // 2)
    parts: list[RenderableType] = [_head(application), _threads(application["threads"])]
    parts.append(_tasks(tasks, None if rows is None else rows - min(half or 0, len(behind))))
    if behind:
        parts.append(_partitions(behind, half))
    parts += [_restoring(entry) for entry in application["restoring"][:_LOG_LINES]]
    for line in lines_of(application)[-_LOG_LINES:]:
        colour = "red" if line.level != "WARNING" else "yellow"
        first = line.text.splitlines()[0] if line.text else ""
        parts.append(Text(f"{shown_time(line.time)} {first}", style=colour, no_wrap=True, overflow="ellipsis"))
    return Group(*parts)


def _safe(found: Any) -> Any:
    """Escape control characters in all texts of an answer."""
    if isinstance(found, dict):
        return {name: _safe(value) for name, value in found.items()}
    if isinstance(found, list):
        return [_safe(value) for value in found]
    return printable_lines(found) if isinstance(found, str) else found


def _head(application: dict[str, Any]) -> Text:
    state, rates = application["state"], application["rates"]
    latest = application["minutes"][-2:][0] if application["minutes"] else None  # the last minute is not over yet
    text = Text()
    text.append(f"{application['application_id']} ", style="bold")
    text.append(state, style=_COLOURS.get(state, "red"))
    up = max(0, application["time"] - application["started"]) // 1000
    text.append(f"  up {_duration(up)}, {application['processing_guarantee']}, {application['host']}\n")
    if application["failure"]:
        text.append(f"{application['failure']}\n", style="red")
    text.append(
        f"{rates['records_per_second']:,.0f} records/s in, {rates['produced_per_second']:,.0f} out; "
        f"lag {application['lag']:,}; total records {rates['totals'].get('records', 0):,}"
    )
    if latest is not None:
        text.append(f"; batch time {latest['turn_ms']:,.0f} ms on average, {latest['slowest_ms']:,.0f} ms at most")
    dead = rates["totals"].get("dead_letters", 0)
    if dead:
        text.append(f"; {dead:,} dead letters", style="yellow")
    return text


def _threads(threads: list[dict[str, Any]]) -> Table:
    table = _table("THREAD", "STATE", "EXECUTOR", "TASKS")
    for thread in threads:
        waits = thread.get("waiting_for_core_seconds")
        state = thread["state"] if waits is None else f"{thread['state']}, waits for a core for {waits:.0f} s"
        table.add_row(Text(_without_client(thread["name"])), _state(state), Text(thread["executor"]), f"{len(thread['tasks'])}")
    return table


def _without_client(thread: str) -> str:
    """Return a thread's name without the client id, which is equal for all threads of an instance.

    >>> _without_client("shop-158c605d-4bbb-4e1f-9f0a-3588f077088b-StreamThread-12")
    'StreamThread-12'
    """
    return thread[max(0, thread.rfind("StreamThread-")) :]


def _tasks(tasks: list[dict[str, Any]], most: int | None) -> Table:
    table = _table("TASK", "ROLE", "STATE", "LAG", "STORES")
    for task in tasks[:most]:
        lag = "" if task["lag"] is None else f"{task['lag']:,}"
        table.add_row(Text(task["id"]), Text(task["role"]), _state(task["state"] or ""), lag, Text(" ".join(task["stores"])))
    _say_rest(table, len(tasks), most, "tasks")
    return table


def _partitions(partitions: list[dict[str, Any]], most: int | None) -> Table:
    table = _table("INPUT", "LAG")
    for partition in partitions[:most]:
        table.add_row(Text(f"{partition['topic']}-{partition['partition']}"), f"{partition['lag']:,}")
    _say_rest(table, len(partitions), most, "partitions behind")
    return table


def _restoring(entry: dict[str, Any]) -> Text:
    done, total = entry["position"] - entry["start"], max(1, entry["end"] - entry["start"])
    return Text(
        f"restoring {entry['store']} of task {entry['task']}: {100 * done // total} % of {total:,} records", style="yellow"
    )


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, justify="right" if column == "LAG" else "left", overflow="ellipsis")
    return table


def _say_rest(table: Table, count: int, most: int | None, what: str) -> None:
    if most is not None and count > most:
        table.add_row(Text(f"… {count - most} more {what}", style="dim"))


def _state(text: str) -> Text:
    return Text(text, style=_COLOURS.get(text.partition(",")[0], ""))


def _duration(seconds: float) -> str:
    days, rest = divmod(int(seconds), 86_400)
    return (f"{days} d " if days else "") + time.strftime("%H:%M:%S", time.gmtime(rest))
