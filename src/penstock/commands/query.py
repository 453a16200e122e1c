"""`penstock query`: read the state of a running application."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import typer

from penstock.commands.common import ConfigFile, Settings, fail, report_errors, say, show_table
from penstock.commands.instance import Server, instance

_WINDOWED = ("window", "session")


def query(
    store: Annotated[
        str | None, typer.Argument(metavar="[STORE]", help="The store to read. Without it all stores are listed.")
    ] = None,
    key: Annotated[str | None, typer.Argument(metavar="[KEY]", help="The key: text, or JSON for other types of keys.")] = None,
    server: Server = None,
    config: ConfigFile = None,
    settings: Settings = None,
    low: Annotated[
        str | None, typer.Option("--from", help="The first key, or the first time of windows (ISO or milliseconds).")
    ] = None,
    high: Annotated[str | None, typer.Option("--to", help="The last key, or the last time of windows.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The largest number of entries.")] = 100,
    stale: Annotated[bool, typer.Option("--stale", help="Read a standby if the key's instance is lost.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Read a key, a range of keys, or a key's windows from a running application.

    Any instance answers for any key. Exits with 1 if the store or the key does not exist.
    """
    with report_errors():
        servers = instance(server, config, settings)
        stores = {found["name"]: found for found in servers.get("/api/stores")["stores"]}
        if store is None:
            _show_stores(list(stores.values()), as_json)
            return
        if store not in stores:
            fail(f"There is no store {store}. Available: {', '.join(sorted(stores)) or 'none'}")
        path, windowed = f"/api/stores/{quote(store, safe='')}", stores[store]["kind"] in _WINDOWED
        if key is None and windowed:
            fail(f"{store} is a {stores[store]['kind']} store: give the key whose windows to read", code=2)
        parameters: dict[str, Any] = {"limit": limit, **({"stale": "true"} if stale else {})}
        bounds = {"from": low, "to": high}
        parameters |= {name: _time(text) if windowed else text for name, text in bounds.items() if text is not None}
        kind = "range" if key is None else f"{'windows' if windowed else 'keys'}/{quote(key, safe='')}"
        answer = servers.get(f"{path}/{kind}?{urlencode(parameters)}")
        _show(store, answer, as_json)


def _show_stores(stores: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        say(json.dumps(stores, ensure_ascii=False))
        return
    rows = [(s["name"], s["kind"], s["partitions"], s["key_type"], s["value_type"], " ".join(s["hosts"])) for s in stores]
    show_table("Stores", ("STORE", "KIND", "PARTITIONS", "KEY", "VALUE", "INSTANCES"), rows)


def _show(store: str, answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        say(json.dumps(answer, ensure_ascii=False))
        return
    entries = answer.get("entries", [answer])
    if not entries:
        say("nothing found")
        return
    windowed = "start" in entries[0]
    columns = ("KEY", "FROM", "TO", "VALUE") if windowed else ("KEY", "VALUE", "TIMESTAMP")
    rows = [
        (_plain(e["key"]), shown_time(e["start"]), shown_time(e["end"]), _plain(e["value"]))
        if windowed
        else (_plain(e["key"]), _plain(e["value"]), shown_time(e.get("timestamp")))
        for e in entries
    ]
    show_table(store, columns, rows)
    if answer.get("stale"):
        say("from a standby: newer values may exist", err=True)
    if answer.get("next") is not None:
        say(f"more entries: --from {_plain(answer['next'])}", err=True)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def shown_time(milliseconds: int | None) -> str:
    """Format a timestamp in UTC, an empty text for None.

    >>> shown_time(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    if milliseconds is None:
        return ""
    try:
        at = datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
    except (OverflowError, ValueError, OSError):  # the end of a window may exceed the calendar
        return str(milliseconds)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"


def _time(text: str) -> int:
    if text.lstrip("-").isdigit():
        return int(text)
    try:
        at = datetime.fromisoformat(text.removesuffix("Z"))
    except ValueError:
        fail(f"{text!r} is not a time: expected YYYY-MM-DDTHH:MM:SS in UTC, or milliseconds since the epoch", code=2)
    return round((at if at.tzinfo else at.replace(tzinfo=timezone.utc)).timestamp() * 1000)
