"""Tokens of an OpenID Connect issuer by client credentials, for kafka-python. librdkafka requests its tokens by itself.

It also reports why an issuer gives no token, before a librdkafka client is opened. Requests are those of librdkafka: a form,
the client's id and secret as basic authentication, proxies from the environment, no redirects.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from http.client import HTTPException
from pathlib import Path
from typing import Any

from penstock.errors import BrokerAccessError, BrokerError, ConfigError
from penstock.kafka.tokens import TokenSource, claims_of, expiry_of

_log = logging.getLogger(__name__)

_TIMEOUT = 5.0  # less than a member's session: heartbeats wait during the request
_MOST_BYTES = 1 << 20
_MOST_TOLD = 200
_TEMPORARY = frozenset({408, 425, 429, 500, 502, 503, 504})
_LOCAL = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Issuer:
    """A token endpoint and its client credentials."""

    endpoint: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    subject_claim: str = "sub"
    extensions: tuple[tuple[str, str], ...] = ()
    ca_location: str = ""
    ca_pem: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        """The endpoint for errors, without its query, which may contain secrets."""
        return f"the token endpoint {self.endpoint.partition('?')[0]}"

    def __call__(self) -> tuple[str, float, str, dict[str, str]]:
        """Request a new token. Raises BrokerAccessError if the issuer refuses, BrokerError if it does not answer."""
        answer = self._answer()
        value = answer.get("access_token")
        if not isinstance(value, str):
            raise BrokerAccessError(f"{self.name} answered without an access_token. Check sasl.oauthbearer.token.endpoint.url")
        try:
            expires_at, subject = expiry_of(value), claims_of(value).get(self.subject_claim)
        except ValueError as exc:
            raise BrokerAccessError(
                f"{self.name} returned an invalid token: {exc}. For tokens of another kind set sasl.oauthbearer.token.provider"
            ) from None
        if not isinstance(subject, str) or not subject:
            raise BrokerAccessError(
                f"{self.name} returned a token without the claim {self.subject_claim}. Set sasl.oauthbearer.sub.claim.name to "
                "the claim that names the client"
            )
        return value, expires_at, subject, dict(self.extensions)

    def _answer(self) -> dict[str, Any]:
        try:
            with self._opener.open(self._request(), timeout=_TIMEOUT) as response:
                body = _read(response)
        except urllib.error.HTTPError as exc:
            with exc:
                raise self._refusal(exc) from None
        except (OSError, HTTPException) as exc:
            reason = exc.reason if isinstance(exc, urllib.error.URLError) else exc
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise BrokerAccessError(
                    f"{self.name} has a certificate that is not trusted ({reason.verify_message}). Set https.ca.location"
                ) from None
            raise BrokerError(f"{self.name} does not answer: {reason or type(reason).__name__}") from None
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise BrokerAccessError(f"{self.name} did not answer with JSON. Check sasl.oauthbearer.token.endpoint.url")
        return answer

    def _request(self) -> urllib.request.Request:
        form = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        credentials = base64.b64encode(f"{self.client_id}:{self.client_secret}".encode()).decode()
        headers = {
            "Accept": "application/json",
            "Authorization": f"Basic {credentials}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        data = urllib.parse.urlencode(form).encode()
        return urllib.request.Request(self.endpoint, data, headers, method="POST")  # noqa: S310 - the opener has http and https only

    @cached_property
    def _opener(self) -> urllib.request.OpenerDirector:
        opener = urllib.request.OpenerDirector()
        for handler in (
            urllib.request.ProxyHandler(),
            urllib.request.HTTPHandler(),
            urllib.request.HTTPSHandler(context=https_context(self.ca_location, self.ca_pem)),
            urllib.request.HTTPDefaultErrorHandler(),  # no handler of redirects: a redirect would send the secret elsewhere
            urllib.request.HTTPErrorProcessor(),
        ):
            opener.add_handler(handler)
        return opener

    def _refusal(self, error: urllib.error.HTTPError) -> BrokerError:
        if error.code in _TEMPORARY:
            return BrokerError(f"{self.name} cannot return a token now (HTTP {error.code})")
        return BrokerAccessError(
            f"{self.name} refused the client {self.client_id!r} (HTTP {error.code}{self._explained(error)}). Check the "
            "credentials (the client's id and secret), and sasl.oauthbearer.scope"
        )

    def _explained(self, error: urllib.error.HTTPError) -> str:
        """Return the OAuth error's text, if any, with the client's secret removed."""
        try:
            answer = json.loads(_read(error))
        except (OSError, ValueError, RecursionError, HTTPException):
            return ""
        if not isinstance(answer, dict):
            return ""
        told = [str(answer[key]) for key in ("error", "error_description") if isinstance(answer.get(key), str)]
        text = re.sub(r"[^\x20-\x7e]", " ", ", ".join(told))[:_MOST_TOLD]
        return f": {text.replace(self.client_secret, '[hidden]')}" if text else ""


@lru_cache(maxsize=16)
def source_of(issuer: Issuer) -> TokenSource:
    """Return the token source of an issuer. All clients in a process share it."""
    url = urllib.parse.urlsplit(issuer.endpoint)
    if url.scheme == "http" and url.hostname not in _LOCAL:
        _log.warning("%s is used without TLS: the client's secret is readable on the network. Use https", issuer.name)
    return TokenSource(issuer.name, issuer)


def https_context(ca_location: str, ca_pem: str) -> ssl.SSLContext:
    """Return the TLS context for the issuer: the given authorities, or the system's."""
    location = "" if ca_location == "probe" else ca_location
    folder = bool(location) and Path(location).is_dir()
    try:
        context = ssl.create_default_context(
            cafile=None if folder else location or None, capath=location if folder else None, cadata=ca_pem or None
        )
    except (OSError, ValueError) as exc:  # ssl.SSLError is an OSError
        raise ConfigError(f"https.ca.location: the certificates cannot be loaded ({exc}). Check the file") from exc
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def check_endpoint(endpoint: str) -> None:
    """Raise ConfigError if this is not the address of a token endpoint."""
    key = "sasl.oauthbearer.token.endpoint.url"
    try:
        url = urllib.parse.urlsplit(endpoint)
        port_is_fine = url.port is None or url.port > 0
    except ValueError:
        raise ConfigError(f"{key} is not an address: expected https://host/path") from None
    if url.username is not None or url.password is not None:
        raise ConfigError(f"{key} must not hold a user or a password: set sasl.oauthbearer.client.id and its secret")
    if url.scheme not in ("http", "https") or not url.hostname or not port_is_fine or re.search(r"[\x00-\x20\x7f]", endpoint):
        raise ConfigError(f"{key} = {endpoint.partition('?')[0]!r} is not allowed: expected https://host/path")


def _read(response: Any) -> bytes:
    """Read the body of an answer, bounded in size and time."""
    body, deadline = b"", time.monotonic() + _TIMEOUT
    while part := response.read1(1 << 16):
        body += part
        if len(body) > _MOST_BYTES:
            raise OSError(f"the answer is longer than {_MOST_BYTES} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError("timed out")
    return body


def issuer_of(settings: Mapping[str, Any]) -> Issuer:
    """Return the issuer configured by librdkafka's settings."""
    extensions = (pair.partition("=") for pair in str(settings.get("sasl.oauthbearer.extensions") or "").split(",") if pair)
    return Issuer(
        str(settings["sasl.oauthbearer.token.endpoint.url"]),
        str(settings["sasl.oauthbearer.client.id"]),
        str(settings["sasl.oauthbearer.client.secret"]),
        str(settings.get("sasl.oauthbearer.scope") or ""),
        str(settings.get("sasl.oauthbearer.sub.claim.name") or "sub"),
        tuple((name.strip(), value) for name, _, value in extensions),
        str(settings.get("https.ca.location") or ""),
        str(settings.get("https.ca.pem") or ""),
    )
