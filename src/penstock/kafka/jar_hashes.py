"""Which jars may go on the class path of the development broker: each by its name and its SHA-256.

The list is in the package (`broker_jars.sha256`, in the format of `sha256sum`) and was made when `KAFKA_VERSION` was chosen. So
it does not matter which repository, mirror or local cache a jar comes from: it is the one that was chosen, or it is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from penstock.errors import BrokerError

PINNED = Path(__file__).with_name("broker_jars.sha256")


def pinned_hashes() -> dict[str, str]:
    """The hash of each jar by its file name."""
    return {name: digest for digest, name in (line.split() for line in PINNED.read_text().splitlines())}


def check_jars(jars: Iterable[str], expected: Mapping[str, str], folder: Path) -> None:
    """Raise where a jar is not one of the expected ones, byte for byte; `folder` is what to delete to get them anew."""
    for jar in jars:
        wanted = expected.get(Path(jar).name)
        if wanted is None:
            raise BrokerError(
                f"the development broker is not started: {jar} is not among the jars that this version of penstock knows by "
                f"their hash. Delete {folder} to fetch them anew, and check where they come from (~/.m2, ~/.ivy2, a mirror)"
            )
        found = sha256_of(jar)
        if found != wanted:
            raise BrokerError(
                f"the development broker is not started: {jar} has SHA-256 {found}, expected {wanted}. It is damaged or is not "
                f"what was published. Delete {folder} to fetch it anew, and check where it comes from (~/.m2, ~/.ivy2, a mirror)"
            )


def sha256_of(file: str) -> str:
    """The hash of a file's bytes, in hexadecimal digits."""
    digest = hashlib.sha256()
    try:
        with open(file, "rb") as data:
            while block := data.read(1 << 20):
                digest.update(block)
    except OSError as exc:
        raise BrokerError(f"the development broker is not started: {file} cannot be read ({exc})") from exc
    return digest.hexdigest()


def write_pins(jars: Iterable[str]) -> None:
    """Make these the jars that may be used from now on."""
    lines = sorted((Path(jar).name, sha256_of(jar)) for jar in jars)
    PINNED.write_text("".join(f"{digest}  {name}\n" for name, digest in lines))
