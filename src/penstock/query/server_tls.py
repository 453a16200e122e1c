"""TLS of the query servers (`application.server.ssl.*`): what this one shows to callers, and whom it believes as it asks others.

Certificates change while an application runs, every few weeks or days. The files are looked at every few seconds when a
connection is made; new connections get what is in them then. Files that cannot be used, as one that is just being written,
are told in the log, and what was there before stays in use.
"""

from __future__ import annotations

import http.client
import logging
import os
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from penstock.errors import ConfigError

PREFIX = "application.server.ssl."

_LOOK_SECONDS = 2.0
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

_log = logging.getLogger(__name__)


class ServerTls:
    """Certificate, key and authorities of one instance."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._certificate: str = config["application.server.ssl.certificate.location"]
        self._key: str | None = config["application.server.ssl.key.location"]
        self._password: str = config["application.server.ssl.key.password"] or ""  # without one OpenSSL would ask the terminal
        self._authorities: str | None = config["application.server.ssl.ca.location"]
        self._client_auth: str = config["application.server.ssl.client.auth"]
        self._protocols = sorted(_VERSIONS[name] for name in config["application.server.ssl.enabled.protocols"])
        if self._client_auth != "none" and not self._authorities:
            raise ConfigError(
                f"application.server.ssl.client.auth = {self._client_auth!r} needs application.server.ssl.ca.location: a PEM "
                "file of the authorities whose certificates callers may show"
            )
        files = [path for path in (self._certificate, self._key, self._authorities) if path]
        self._server = _Followed(files, self._server_context)
        self._client = _Followed(files, self._client_context)

    def for_server(self) -> ssl.SSLContext:
        """What a server takes connections with; each gets what is in the files then."""
        for followed in (self._server, self._client):
            followed.now()  # what is wrong is said at the start
        context = _FollowingContext(ssl.PROTOCOL_TLS_SERVER)
        context.followed = self._server
        return context

    def for_peers(self) -> ssl.SSLContext:
        """What other instances are asked with: names and certificates are checked, ours is shown to who asks for it."""
        return self._client.now()

    def _server_context(self) -> ssl.SSLContext:
        context = self._context(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = _CLIENT_AUTH[self._client_auth]
        if self._authorities and self._client_auth != "none":
            context.load_verify_locations(self._authorities)
        return context

    def _client_context(self) -> ssl.SSLContext:
        context = self._context(ssl.PROTOCOL_TLS_CLIENT)  # checks certificates and names
        if self._authorities:
            context.load_verify_locations(self._authorities)
        else:
            context.load_default_certs()
        return context

    def _context(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version, context.maximum_version = self._protocols[0], self._protocols[-1]
        context.load_cert_chain(self._certificate, self._key, self._password)
        return context


def server_tls(config: Mapping[str, Any]) -> ServerTls | None:
    """TLS as it is configured; None where the query server speaks plain text."""
    if config["application.server.ssl.certificate.location"]:
        return ServerTls(config)
    for name in ("key.location", "key.password", "ca.location"):
        if config[PREFIX + name]:
            raise ConfigError(f"{PREFIX}{name} is set, and {PREFIX}certificate.location, the PEM file it belongs to, is not")
    return None


def peer_connection(host: str, port: int, tls: ssl.SSLContext | None, timeout: float) -> http.client.HTTPConnection:
    """A connection to another instance's query server; nothing is sent yet."""
    if tls is None:
        return http.client.HTTPConnection(host, port, timeout=timeout)
    return http.client.HTTPSConnection(host, port, timeout=timeout, context=tls)


def distrust(error: BaseException) -> str | None:
    """Why the other side is not believed to be who it should be; None for other errors."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return None
    reason = error.verify_message.rstrip(".")
    return f"its certificate is not trusted: {reason} (application.server.ssl.ca.location tells whose are)"


class _Followed:
    """What was made of some files, made again when they have changed."""

    def __init__(self, files: list[str], make: Callable[[], ssl.SSLContext]) -> None:
        self._files, self._make = files, make
        self._made: ssl.SSLContext | None = None
        self._seen: Any = None
        self._refused: Any = None
        self._looked = 0.0
        self._lock = threading.Lock()

    def now(self) -> ssl.SSLContext:
        """What to use for a new connection."""
        with self._lock:
            if self._made is None or time.monotonic() - self._looked >= _LOOK_SECONDS:
                self._look()
            assert self._made is not None
            return self._made

    def _look(self) -> None:
        seen = [_signature(path) for path in self._files]
        if self._made is not None and seen == self._seen:
            self._looked = time.monotonic()
            return
        try:
            made = self._make()
        except (OSError, ValueError) as exc:
            if self._made is None:
                raise ConfigError(f"{', '.join(self._files)} cannot be used for application.server.ssl: {_why(exc)}") from exc
            if seen != self._refused:
                _log.warning("%s have changed and cannot be used (%s); the old ones stay", ", ".join(self._files), _why(exc))
            self._refused = seen
        else:
            if self._made is not None:
                _log.info("%s have changed: new connections use them", ", ".join(self._files))
            self._made, self._seen, self._refused = made, seen, None
        self._looked = time.monotonic()


class _FollowingContext(ssl.SSLContext):
    """Takes each connection with what is followed then: asyncio makes all connections of a server from one context."""

    followed: _Followed

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        """A connection that begins now."""
        return self.followed.now().wrap_bio(*arguments, **named)


def _signature(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _why(error: Exception) -> str:
    """OpenSSL does not say much."""
    if isinstance(error, ssl.SSLError):
        return f"{error.reason or error}: it has to be PEM, with the key of the certificate, and its password if it has one"
    return str(error)
