"""The names and SHA-256 hashes of the development broker's jars.

The list is part of the package (`broker_jars.sha256`, in the format of `sha256sum`) and belongs to `KAFKA_VERSION`. A jar from
any repository, mirror or cache must match it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from penstock.errors import BrokerError

PINNED = Path(__file__).with_name("broker_jars.sha256")


def pinned_hashes() -> dict[str, str]:
    """Return the hash of each jar by file name."""
    return {name: digest for digest, name in (line.split() for line in PINNED.read_text().splitlines())}


def check_jars(jars: Iterable[str], expected: Mapping[str, str], folder: Path) -> None:
    """Raise BrokerError for an unknown or changed jar. `folder` is the cache named in the message."""
    for jar in jars:
        wanted = expected.get(Path(jar).name)
        if wanted is None:
            raise BrokerError(
                f"The development broker is not started: {jar} is not one of the jars whose hashes are "
                f"pinned. Delete {folder} to fetch the jars again, and check their source (~/.m2, ~/.ivy2, a mirror)"
            )
        found = sha256_of(jar)
        if found != wanted:
            raise BrokerError(
                f"The development broker is not started: {jar} has SHA-256 {found}, expected {wanted}. It is damaged or "
                f"changed. Delete {folder} to fetch it again, and check its source (~/.m2, ~/.ivy2, a mirror)"
            )


def sha256_of(file: str) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    digest = hashlib.sha256()
    try:
        with open(file, "rb") as data:
            while block := data.read(1 << 20):
                digest.update(block)
    except OSError as exc:
        raise BrokerError(f"The development broker is not started: {file} cannot be read ({exc})") from exc
    return digest.hexdigest()


def write_pins(jars: Iterable[str]) -> None:
    """Replace the pinned hashes by those of these jars."""
    lines = sorted((Path(jar).name, sha256_of(jar)) for jar in jars)
    PINNED.write_text("".join(f"{digest}  {name}\n" for name, digest in lines))
