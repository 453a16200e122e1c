"""Tokens of SASL/OAUTHBEARER: providers, renewal, and the callbacks of both client libraries.

    provider()  ──►  `TokenSource`  ──►  librdkafka's refresh callback, on its own thread, also without polls
                     keeps a token       `MemberTokens` for kafka-python, on the loop that also sends the heartbeats
                     for 4/5 of its life

A provider takes no arguments. It returns the token, or a tuple of the token, its expiry in seconds since the epoch, and
optionally its principal and extensions. No message and no `repr` contains a token.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import math
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import BrokerAccessError, BrokerError
from penstock.kafka.abandon import AbandonedError, call_within

_log = logging.getLogger(__name__)

Provider = Callable[[], Any]

_PROVIDER_SECONDS = 10.0  # librdkafka waits as long when it opens a client
_RENEW_AFTER = 0.8  # librdkafka renews a token at this part of its life
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_EXTENSION = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x20-\x7e\t\r\n]*")
_FAR_FUTURE = 100_000_000_000  # seconds until the year 5138, milliseconds until 1973

EXPECTED = "the token, or (token, seconds since the epoch at which it expires[, principal[, extensions]])"


@dataclass(frozen=True)
class Token:
    """A token with its expiry."""

    value: str = field(repr=False)
    expires_at: float
    principal: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)


class TokenSource:
    """Tokens of one provider, renewed after 4/5 of their life.

    librdkafka calls it as `oauth_cb`. If the provider fails while the last token is valid, the error is logged. Otherwise an
    `OSError` (no connection, a timeout) raises BrokerError, which the application retries, and any other error raises
    BrokerAccessError, which ends it.
    """

    def __init__(self, name: str, provider: Provider) -> None:
        self.name = name
        self._provider = provider
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._renew_at = 0.0
        self._renewal: threading.Timer | None = None

    def current(self, patience: float = 0.0) -> Token:
        """Return a valid token. Passing errors are retried for `patience` seconds."""
        deadline, pause = time.monotonic() + patience, _FIRST_PAUSE
        while True:
            try:
                with self._lock:
                    return self._renewed()
            except BrokerAccessError:
                raise
            except BrokerError:
                if time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def at_once(self) -> Token:
        """Return the current token without waiting while it is valid. A background timer renews it in time."""
        token = self._token
        if token is None or token.expires_at <= time.time() + 1:
            token = self.current()
        if self._renewal is None or not self._renewal.is_alive():
            self._renewal = threading.Timer(max(0.0, self._renew_at - time.time()), self._renew_beside)
            self._renewal.daemon = True
            self._renewal.start()
        return token

    def __call__(self, _config: str) -> tuple[str, float, str, dict[str, str]]:
        """Return the token in the form of librdkafka's callback."""
        token = self.current()
        return token.value, token.expires_at, token.principal, dict(token.extensions)

    def _renew_beside(self) -> None:
        try:
            self.current()
        except BrokerError as exc:
            _log.warning("%s", exc)

    def _renewed(self) -> Token:
        now = time.time()
        if self._token is not None and now < self._renew_at:
            return self._token
        try:
            self._token = self._asked()
        except BrokerError as exc:
            if self._token is None or self._token.expires_at <= now + 1:
                raise
            _log.warning("%s. The last token is valid for another %.0f s", exc, self._token.expires_at - now)
            return self._token
        self._renew_at = now + _RENEW_AFTER * (self._token.expires_at - now)
        return self._token

    def _asked(self) -> Token:
        given: list[Any] = []
        try:
            call_within(_PROVIDER_SECONDS, lambda: given.append(self._provider()))
        except BrokerError:
            raise
        except AbandonedError as exc:
            raise BrokerError(f"Getting a token from {self.name} failed: {exc}") from None
        except OSError as exc:
            raise BrokerError(f"Getting a token from {self.name} failed: {_told(exc)}") from exc
        except Exception as exc:
            raise BrokerAccessError(f"Getting a token from {self.name} failed: {_told(exc)}") from exc
        try:
            return token_of(given[0])
        except ValueError as exc:
            raise BrokerAccessError(f"{self.name} returned an invalid token: {exc}") from None


def token_of(given: Any) -> Token:
    """Check a provider's result. Raises ValueError with the reason if it is invalid.

    >>> token_of(("abc", time.time() + 60)).value
    'abc'
    >>> token_of(("abc", 17))
    Traceback (most recent call last):
    ...
    ValueError: it expired at 1970-01-01T00:00:17Z
    """
    if isinstance(given, str):
        given = (given, expiry_of(given))
    if not isinstance(given, tuple | list) or not 2 <= len(given) <= 4:
        raise ValueError(f"expected {EXPECTED}, got {_kind(given)}")
    value, expires_at, principal, extensions = (*given, "", "")[:4]
    if not isinstance(value, str) or _PRINTABLE.fullmatch(value) is None:
        raise ValueError("a token is text of visible ASCII characters")
    if isinstance(expires_at, bool) or not isinstance(expires_at, int | float) or not math.isfinite(expires_at):
        raise ValueError(f"its expiry must be seconds since the epoch, got {_kind(expires_at)}")
    if expires_at > _FAR_FUTURE:
        raise ValueError("its expiry must be seconds since the epoch; this one looks like milliseconds")
    if expires_at <= time.time():
        raise ValueError(f"it expired at {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(expires_at))}")
    if not isinstance(principal or "", str):
        raise ValueError(f"its principal must be text, got {_kind(principal)}")
    return Token(value, float(expires_at), principal or "", checked_extensions(extensions or {}))


def checked_extensions(extensions: Any) -> dict[str, str]:
    """Check the extensions of a token. Raises ValueError with the reason if they are invalid."""
    if not isinstance(extensions, Mapping):
        raise ValueError(f"its extensions must be a mapping of names to text, got {_kind(extensions)}")
    for name, value in extensions.items():
        if not isinstance(name, str) or _EXTENSION.fullmatch(name) is None or name == "auth":
            raise ValueError(f"the name of an extension must have letters only and not be auth, got {name!r}")
        if not isinstance(value, str) or _EXTENSION_VALUE.fullmatch(value) is None:
            raise ValueError(f"the extension {name} must be ASCII text")
    return dict(extensions)


def claims_of(token: str) -> dict[str, Any]:
    """Return the claims of a JWT without verification, which is the brokers' task. Raises ValueError for other text."""
    parts = token.split(".")
    if len(parts) != 3:
        raise ValueError("it is not a JWT")
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        claims = json.loads(payload)
    except (binascii.Error, ValueError, RecursionError):
        raise ValueError("it is not a readable JWT") from None
    if not isinstance(claims, dict):
        raise ValueError("it is a JWT without claims")
    return claims


def expiry_of(token: str) -> float:
    """Return the expiry of a JWT. Raises ValueError if it has none."""
    expires_at = claims_of(token).get("exp")
    if isinstance(expires_at, bool) or not isinstance(expires_at, int | float):
        raise ValueError("it is a JWT without an expiry (exp)")
    try:
        return float(expires_at)
    except OverflowError:
        raise ValueError("it is a JWT with an invalid expiry (exp)") from None


def _kind(given: Any) -> str:
    """Describe a value without printing it."""
    if isinstance(given, tuple | list):
        return f"a {type(given).__name__} of {len(given)}"
    return "nothing" if given is None else f"a value of type {type(given).__name__}"


def _told(exc: BaseException) -> str:
    return f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
