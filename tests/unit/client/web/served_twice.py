"""Two instances of one application with query servers, which share its partitions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.unit.client.web.served import Served
from tests.unit.client.web.test_server import fill


@contextmanager
def served_twice(folder: Path) -> Iterator[tuple[Served, Served]]:
    """The first has one partition, the second the two others; their stores are filled."""
    first, second = Served(folder / "a", "secret", [0]), Served(folder / "b", "secret", [1, 2])
    hosts = {0: first.address, 1: second.address, 2: second.address}
    fill(first.serve(hosts), second.serve(hosts))
    yield first, second
    first.close()
    second.close()
