"""Tables of an application that runs elsewhere, read from its query servers with the token."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pyarrow as pa

from penstock.errors import (
    ConfigError,
    InvalidStateStoreError,
    PenstockError,
    StateStoreNotAvailableError,
    UnknownStateStoreError,
)
from penstock.peers.addresses import advertised, is_loopback
from penstock.query.change_read import ChangeRead
from penstock.query.metadata import HostInfo
from penstock.query.server_tls import distrust, peer_connection
from penstock.query.table_read import TableRead

SERVER = "application.server"
TOKEN, TOKEN_FILE, TOKEN_VARIABLE = f"{SERVER}.token", f"{SERVER}.token.file", "PENSTOCK_SERVER_TOKEN"
SECRETS = frozenset({TOKEN, f"{SERVER}.ssl.key.password"})

_SECONDS = 60.0
_CONNECT_SECONDS = 5.0
"""Time limit for connecting to a host. The answer has `_SECONDS`."""
_PATIENCE = 60.0
_MAX_ANSWER = 4 * 1024 * 1024
_MAX_PAGE = 256 * 1024 * 1024
_MAX_READ = 6_000  # of the 8 KB of a URL

Columns = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class StoreTable:
    """The columns of a store's table, and the instance of each partition."""

    columns: tuple[tuple[str, str], ...]
    key_format: str | None
    active: tuple[str | None, ...]


@dataclass(frozen=True)
class Servers:
    """The query servers of an application with their security settings. Files are read where the query is planned."""

    addresses: tuple[str, ...]
    token: str | None = field(default=None, repr=False)
    secure: bool = False
    authorities: str | None = field(default=None, repr=False)
    certificate: tuple[str, str | None, str] | None = field(default=None, repr=False)
    plaintext_allowed: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Servers:
        """Return the servers of a table's options. Raises ConfigError for options that do not fit together."""
        given = [address.strip() for address in options.get(SERVER, "").split(",") if address.strip()]
        if not given:
            raise ConfigError(f'a table of penstock needs .option("{SERVER}", "host:port"): the address of an instance')
        secure = any(address.startswith("https://") for address in given) or any(
            name.lower().startswith(f"{SERVER}.ssl.") for name in options
        )
        addresses = tuple(address.removeprefix("https://").removeprefix("http://").rstrip("/") for address in given)
        for address in addresses:
            try:
                advertised(address)
            except ValueError as exc:
                raise ConfigError(f"{SERVER} = {address[:300]!r} is not the address of an instance: {exc}") from exc
        authorities = options.get(f"{SERVER}.ssl.ca.location")
        certificate = options.get(f"{SERVER}.ssl.certificate.location")
        return cls(
            addresses,
            _token_of(options),
            secure,
            None if authorities is None else _text(authorities, f"{SERVER}.ssl.ca.location"),
            None
            if certificate is None
            else (certificate, options.get(f"{SERVER}.ssl.key.location"), options.get(f"{SERVER}.ssl.key.password") or ""),
            options.get(f"{SERVER}.plaintext.allowed", "false").lower() == "true",
        )

    def get(self, target: str) -> Any:
        """Return the JSON answer of the first available server. A refusal is raised with the server's reason."""
        failures = []
        for address in self.addresses:
            try:
                with self._response(address, target, f"The instance at {address} refused the request") as response:
                    return json.loads(response.read(_MAX_ANSWER))
            except PenstockError:
                raise
            except (OSError, http.client.HTTPException) as exc:
                failures.append(f"Connecting to the instance at {address} failed: {distrust(exc) or exc}")
            except (ValueError, RecursionError):
                failures.append(f"{address} does not answer like an instance of penstock")
        raise StateStoreNotAvailableError("; ".join(failures))

    def table(self, store: str) -> StoreTable:
        """Return the schema of a store from the first available server."""
        failures = []
        for address in self.addresses:
            try:
                with self._stream(address, f"/api/stores/{quote(store, safe='')}") as body:
                    return _table(body.read(_MAX_ANSWER), address)
            except StateStoreNotAvailableError as exc:
                failures.append(str(exc))
        raise StateStoreNotAvailableError("; ".join(failures))

    def table_now(self, store: str) -> StoreTable:
        """Return the schema of a store, with retries while no server answers."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return self.table(store)
            except StateStoreNotAvailableError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.2)

    def batches(self, store: str, partition: int, read: TableRead, columns: Columns) -> Iterator[pa.RecordBatch]:
        """Yield a partition from its instance. While it moves, it is located again."""
        return patient_batches(lambda: self._batches(store, partition, read, columns))

    def changes(self, store: str, partition: int, wanted: ChangeRead, columns: Columns) -> Iterator[pa.RecordBatch]:
        """The changes of a partition, page by page; what is read was committed when the first page was asked for."""
        parameters = {"partition": partition, "from": wanted.start, "to": wanted.end}
        while True:
            data = self._page(f"/api/stores/{quote(store, safe='')}/changes?{urlencode(parameters)}")
            batches, behind, end = _page_of(data, store, columns)
            yield from batches
            if behind >= end or behind <= parameters.get("offset", -1):
                return
            parameters |= {"offset": behind, "end": end}

    def _page(self, target: str) -> bytes:
        """One page, from the first server that answers."""
        deadline, failures = time.monotonic() + _PATIENCE, list[str]()
        while time.monotonic() < deadline:
            failures.clear()
            for address in self.addresses:
                try:
                    with self._stream(address, target, "changes of ") as body:
                        return body.read(_MAX_PAGE)
                except StateStoreNotAvailableError as exc:
                    failures.append(str(exc))
            time.sleep(0.2)
        raise StateStoreNotAvailableError("; ".join(failures))

    def _batches(self, store: str, partition: int, read: TableRead, columns: Columns) -> Iterator[pa.RecordBatch]:
        active = self.table(store).active
        address = active[partition] if partition < len(active) else None
        if address is None:
            raise StateStoreNotAvailableError(f"partition {partition} of store {store} has no instance now. Try again")
        with self._stream(address, table_target(store, partition, read, columns), f"partition {partition} of ") as body:
            yield from checked(pa.ipc.open_stream(body), columns)
            body.read()  # check the end of the stream, not only of the connection

    @contextmanager
    def _stream(self, address: str, target: str, what: str = "") -> Iterator[http.client.HTTPResponse]:
        """Yield the body of an answer. Errors name the store and the instance."""
        store = target.split("/")[3]
        try:
            with self._response(address, target, f"The instance at {address} does not return {what}store {store}") as response:
                yield response
        except PenstockError:
            raise
        except (OSError, http.client.HTTPException, ValueError) as exc:
            raise StateStoreNotAvailableError(
                f"{what}store {store} at {address} cannot be read: {distrust(exc) or exc}. Check that {SERVER} is the "
                "address of a "
                "running instance"
            ) from exc

    @contextmanager
    def _response(self, address: str, target: str, refusal: str) -> Iterator[http.client.HTTPResponse]:
        """Yield a successful response. A refusal is raised with `refusal` before its reason."""
        connection = self._connection(advertised(address))
        try:
            headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
            connection.request("GET", target, headers=headers)
            response = connection.getresponse()
            if response.status != 200:
                raise _refused(response, refusal)
            yield response
        finally:
            connection.close()

    def _connection(self, host: HostInfo) -> http.client.HTTPConnection:
        connection = peer_connection(host.host, host.port, self._tls() if self.secure else None, _CONNECT_SECONDS)
        connection.connect()
        connection.sock.settimeout(_SECONDS)
        reached = str(connection.sock.getpeername()[0]).partition("%")[0]
        if not self.secure and self.token is not None and not self.plaintext_allowed and not is_loopback(reached):
            connection.close()
            raise ConfigError(
                f"The token is not sent to {host} in plain text. Set {SERVER}.ssl.ca.location for TLS, or "
                f"{SERVER}.plaintext.allowed = true if a proxy or a mesh encrypts"
            )
        return connection

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authorities)
        if self.certificate is not None:
            context.load_cert_chain(*self.certificate)
        return context


def patient_batches(look: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a partition. Until the first rows arrive, it is located again while it moves."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        batches = look()
        try:
            first = next(batches, None)
        except StateStoreNotAvailableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
            continue
        if first is not None:
            yield first
            yield from batches
        return


def table_target(store: str, partition: int, read: TableRead, columns: Columns) -> str:
    """Return the URL path for a part of a partition. A list of keys that is too long is left out, and the caller filters."""
    parameters = {"partition": str(partition), "columns": ",".join(name for name, _ in columns)}
    text = "" if read.is_all else urlencode({"read": read.to_text()})
    return f"/api/stores/{quote(store, safe='')}/table?{urlencode(parameters)}" + (
        f"&{text}" if 0 < len(text) <= _MAX_READ else ""
    )


def checked(batches: Any, columns: Columns) -> Iterator[pa.RecordBatch]:
    """Yield batches with exactly these columns. Raises ValueError for other columns."""
    from penstock.runtime.queries.arrow_table import schema_of

    schema = schema_of(columns)
    for batch in batches:
        batch.validate(full=True)
        try:
            yield pa.RecordBatch.from_arrays([batch.column(name) for name in schema.names], schema=schema)
        except (KeyError, TypeError, pa.ArrowInvalid) as exc:
            raise ValueError(f"the answer has columns {batch.schema.names} instead of {schema.names}: {exc}") from exc


def _page_of(data: bytes, store: str, columns: Columns) -> tuple[list[pa.RecordBatch], int, int]:
    """Return the batches of a page of changes, where the next page begins, and where the last one ends."""
    try:
        with pa.ipc.open_stream(data) as stream:
            marks = stream.schema.metadata or {}
            return list(checked(stream, columns)), int(marks[b"penstock.next"]), int(marks[b"penstock.end"])
    except (ValueError, KeyError, TypeError, pa.ArrowException) as exc:
        raise StateStoreNotAvailableError(f"what was answered is no page of the changes of store {store}: {exc}") from exc


def _table(body: bytes, address: str) -> StoreTable:
    try:
        found = json.loads(body)
        columns = tuple((str(column["name"]), str(column["type"])) for column in found["columns"])
        active = tuple(None if host is None else str(host) for host in found["active"])
        key_format = found["key_format"]
    except (ValueError, TypeError, KeyError, RecursionError) as exc:
        raise StateStoreNotAvailableError(f"{address} does not answer like an instance of penstock") from exc
    return StoreTable(columns, None if key_format is None else str(key_format), active)


def _refused(response: http.client.HTTPResponse, what: str) -> Exception:
    try:
        reason = str(json.loads(response.read(65_536))["error"])
    except (ValueError, TypeError, KeyError, RecursionError):
        reason = ""
    text = f"{what}: {response.status} {reason}"
    if response.status in (401, 403):
        return ConfigError(
            f"{text} (options {TOKEN_FILE} or {TOKEN}, or the variable {TOKEN_VARIABLE} where queries are planned)"
        )
    if response.status == 404:
        return UnknownStateStoreError(text)
    return InvalidStateStoreError(text) if response.status == 400 else StateStoreNotAvailableError(text)


def _token_of(options: Mapping[str, str]) -> str | None:
    if options.get(TOKEN):
        return options[TOKEN]
    if options.get(TOKEN_FILE):
        return _text(options[TOKEN_FILE], TOKEN_FILE).strip()
    return os.environ.get(TOKEN_VARIABLE) or None


def _text(path: str, option: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as exc:
        raise ConfigError(f"{option} = {path} cannot be read by the process that plans the query: {exc}") from exc
