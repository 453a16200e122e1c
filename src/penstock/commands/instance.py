"""The instance for `penstock top`, `logs` and `query`: the address of its query server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.commands.common import fail, read_settings

if TYPE_CHECKING:
    from penstock.spark.queries.remote_tables import Servers

_PREFIX = "application.server"

Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        "-s",
        metavar="HOST:PORT",
        help="The address of an instance (https://… for TLS). Default: application.server of the settings.",
        envvar="PENSTOCK_SERVER",
    ),
]


def instance(server: str | None, config: Path | None, settings: list[str] | None) -> Servers:
    """Return the servers with the token and certificates of the settings."""
    from penstock.config.providers import resolve_references
    from penstock.spark.queries.remote_tables import Servers

    merged = resolve_references(read_settings(config, settings))
    options = {name: _text(value) for name, value in merged.items() if name.startswith(_PREFIX)}
    if server is not None:
        options[_PREFIX] = server
    if not options.get(_PREFIX):
        fail("No instance is given. Use --server HOST:PORT, or application.server in the settings", code=2)
    return Servers.of(options)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
