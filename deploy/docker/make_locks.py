"""Write what the images install, with hashes: the part of the project's locks that an application needs.

python deploy/docker/make_locks.py
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = frozenset({"setuptools", "wheel"})  # pyspark is published as source


def entries(lock: Path) -> dict[str, list[str]]:
    """The entries of a lock by the name of the distribution; one has several where versions differ by Python's."""
    found: dict[str, list[str]] = {}
    for entry in re.split(r"\n(?=\S)", lock.read_text().rstrip()):
        found.setdefault(normalized(entry), []).append(entry)
    return found


def normalized(requirement: str) -> str:
    """The name that a requirement begins with."""
    name = re.match(r"[\w.\-]+", requirement)
    return re.sub(r"[-_.]+", "-", name[0]).lower() if name else ""


def closure(first: set[str], pinned: set[str]) -> set[str]:
    """These and all that they need, as far as it is pinned."""
    found: set[str] = set()
    left = first & pinned
    while left:
        name = left.pop()
        found.add(name)
        try:
            needed = requires(name) or []
        except PackageNotFoundError:  # for another version of Python
            continue
        left |= {normalized(one) for one in needed if "extra ==" not in one} & pinned - found
    return found


def locks() -> dict[str, str]:
    """The contents of each file."""
    pinned = entries(ROOT / "requirements-dev.lock")
    own = requires("penstock-streams") or []
    first = {normalized(one) for one in own if "extra ==" not in one}
    first |= {
        normalized(one)
        for one in requires("confluent-kafka") or []
        if any(re.search(rf"extra == ['\"]{extra}['\"]", one) for extra in ("avro", "protobuf", "json"))
    }
    runtime = closure(first, set(pinned)) - BUILD
    return {
        "build.lock": _text(pinned, set(BUILD)),
        "requirements.lock": _text(pinned, runtime),
    }


def _text(pinned: dict[str, list[str]], names: set[str]) -> str:
    return "".join(f"{entry}\n" for name in sorted(names) for entry in pinned[name])


if __name__ == "__main__":
    for file, text in locks().items():
        (Path(__file__).parent / file).write_text(text)
