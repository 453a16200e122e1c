"""Which settings are secrets, and how settings are shown: by their names, for nobody can tell it by the values.

A name that speaks of a secret is one whoever defined it: penstock's, a client's, or one that only the user's processors know.
Names of ours and of the clients that speak of keys and mean something else (`default.key.serde`) are listed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from penstock.config.clients import (
    ADMIN_KEYS,
    ADMIN_PREFIX,
    CONSUMER_KEYS,
    CONSUMER_PREFIX,
    GLOBAL_CONSUMER_PREFIX,
    MAIN_CONSUMER_PREFIX,
    PRODUCER_KEYS,
    PRODUCER_PREFIX,
    RESTORE_CONSUMER_PREFIX,
)
from penstock.config.keys import KEYS

MASK: Final = "[hidden]"

_ALWAYS: Final = re.compile(
    r"passw|passphrase|passcode|\bpass\b|pwd|secret|token|jaas|credential|private|user\.?info|authorization|\bbearer\b"
    r"|oauthbearer\.config|access[._-]?key|api[._-]?key|ssl\.key(store)?\.(key|pem)",
    re.IGNORECASE,
)
_UNLESS_KNOWN: Final = re.compile(r"key|assertion|cookie|signature", re.IGNORECASE)

# Places, kinds and certificates: what is at the place is the secret.
_HARMLESS: Final = frozenset(
    {
        "basic.auth.credentials.source",
        "bearer.auth.credentials.source",
        "ssl.key.location",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.keystore.certificate.chain",
        "ssl.keymanager.algorithm",
        "sasl.kerberos.keytab",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.token.provider",
        "sasl.oauthbearer.assertion.algorithm",
        "sasl.oauthbearer.assertion.private.key.file",
    }
)
_KNOWN: Final = frozenset(KEYS) | CONSUMER_KEYS | PRODUCER_KEYS | ADMIN_KEYS
_PREFIXES: Final = (
    MAIN_CONSUMER_PREFIX,
    RESTORE_CONSUMER_PREFIX,
    GLOBAL_CONSUMER_PREFIX,
    CONSUMER_PREFIX,
    PRODUCER_PREFIX,
    ADMIN_PREFIX,
)
_PROVIDER_CLASS: Final = re.compile(r"config\.providers\.[^.]+\.class")
# A login before the host, also one without a password: `https://TOKEN@host`.
_LOGIN_IN_ADDRESS: Final = re.compile(r"(?<=://)[^/?#\s]+(?=@)")
# `name=value` in the query of an address, in options of a JVM and in lists of settings.
_ASSIGNED: Final = re.compile(r"(?<![\w.\-])(?P<name>[\w.\-]+)(?P<sign>\s*=\s*)(?P<value>\"[^\"]*\"|'[^']*'|[^\s&;,\"']+)")
_SHORT_NAMES: Final = frozenset({"auth", "pw", "sas", "sig"})  # of parameters in addresses

# What is shorter may stand in any sentence, which would say nothing any more.
_SHORTEST: Final = 4


def is_secret(key: str) -> bool:
    """Whether a setting's value must not be shown.

    >>> is_secret("consumer.sasl.password"), is_secret("payment.api.key"), is_secret("default.key.serde"), is_secret("poll.ms")
    (True, True, False, False)
    """
    name = next((key.removeprefix(prefix) for prefix in _PREFIXES if key.startswith(prefix)), key)
    if name in _HARMLESS or _PROVIDER_CLASS.fullmatch(key):
        return False
    return _ALWAYS.search(key) is not None or (name not in _KNOWN and _UNLESS_KNOWN.search(key) is not None)


def shown(key: str, value: Any) -> Any:
    """A value as it may be printed. Hidden are secrets, also those in tables, logins in addresses, and `name=secret` in texts.

    >>> shown("poll.ms", 3), shown("sasl.password", "x"), shown("registry", "http://me:x@host"), shown("a", {"token": "x"})
    (3, '[hidden]', 'http://[hidden]@host', {'token': '[hidden]'})
    >>> shown("url", "https://host/?user=me&api_key=x"), shown("options", "-Xmx1g -Djavax.net.ssl.keyStorePassword=x")
    ('https://host/?user=me&api_key=[hidden]', '-Xmx1g -Djavax.net.ssl.keyStorePassword=[hidden]')
    """
    if is_secret(key):
        return MASK
    if isinstance(value, str):
        return _ASSIGNED.sub(_shown_assignment, _LOGIN_IN_ADDRESS.sub(MASK, value))
    if isinstance(value, Mapping):
        return {name: shown(name, entry) if isinstance(name, str) else entry for name, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(shown(key, entry) for entry in value)
    return value


def _shown_assignment(found: re.Match[str]) -> str:
    is_hidden = is_secret(found["name"]) or found["name"].lower() in _SHORT_NAMES
    return f"{found['name']}{found['sign']}{MASK}" if is_hidden else found[0]


def without_secrets(text: str, settings: Mapping[str, Any]) -> str:
    """What somebody else says about settings, as a client's library does, without the values of the secrets among them.

    >>> without_secrets('Invalid value "letmein"', {"sasl.password": "letmein"})
    'Invalid value "[hidden]"'
    """
    secrets = {str(value) for key, value in settings.items() if is_secret(key) and len(str(value)) >= _SHORTEST}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text
