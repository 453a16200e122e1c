"""Values that stand somewhere else, as Kafka's config providers write them: `${env:NAME}`, `${file:/path:key}`.

`config.providers = env, secrets` names providers; `config.providers.<name>.class` says what each is: Java's
`EnvVarConfigProvider`, `FileConfigProvider` or `DirectoryConfigProvider`. So a password need not be in a settings file or on
a command line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock.config.properties import parse_properties
from penstock.errors import ConfigError

_REFERENCE = re.compile(r"\$\{([^}:]+):(?:([^}]*?):)?([^}:]+)\}")

Lookup = Callable[[str, str], str]


def resolve_references(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with every reference replaced by what it stands for; text without a known provider stays as it is.

    >>> import os; os.environ["SHOP_PASSWORD"] = "x"
    >>> env = {"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider"}
    >>> resolve_references({**env, "sasl.password": "${env:SHOP_PASSWORD}"})["sasl.password"]
    'x'
    """
    names = given.get("config.providers") if isinstance(given, Mapping) else None
    if not names:
        return dict(given)
    listed = names.split(",") if isinstance(names, str) else names
    providers = {name.strip(): _provider(name.strip(), given) for name in listed}
    return {
        key: _resolved(key, value, providers) if isinstance(value, str) and not key.startswith("config.providers") else value
        for key, value in given.items()
    }


def _resolved(key: str, value: str, providers: Mapping[str, Lookup]) -> str:
    def replace(match: re.Match[str]) -> str:
        provider = providers.get(match.group(1))
        if provider is None:
            return match.group(0)
        try:
            return provider(match.group(2) or "", match.group(3))
        except (OSError, KeyError, ValueError) as exc:
            # The reference says where to look; what stands around it may be a secret.
            raise ConfigError(f"{key}: {match.group(0)} stands for no value ({exc})") from None

    return _REFERENCE.sub(replace, value)


def _provider(name: str, given: Mapping[str, Any]) -> Lookup:
    key = f"config.providers.{name}.class"
    kind = str(given.get(key, "")).rpartition(".")[2]
    if kind not in _PROVIDERS:
        raise ConfigError(f"{key} = {given.get(key)!r} is not allowed: expected one of {', '.join(_PROVIDERS)}")
    return _PROVIDERS[kind]


def _from_environment(_: str, name: str) -> str:
    return os.environ[name]


def _from_file(path: str, name: str) -> str:
    """One entry of a properties file."""
    return parse_properties(Path(path).read_text(encoding="utf-8"))[name]


def _from_directory(path: str, name: str) -> str:
    """A file for each value, as secrets are mounted."""
    if "/" in name or name in ("", ".", ".."):
        raise KeyError(name)
    return (Path(path) / name).read_text(encoding="utf-8")


_PROVIDERS: Mapping[str, Lookup] = {
    "EnvVarConfigProvider": _from_environment,
    "FileConfigProvider": _from_file,
    "DirectoryConfigProvider": _from_directory,
}
