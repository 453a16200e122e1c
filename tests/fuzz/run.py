"""Rounds of mutated inputs. The input that is being read is kept in a file: after a crash of the process it is found there."""

from __future__ import annotations

import hashlib
import logging
import mmap
import random
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.abuse.hostile import confined, hostile
from tests.fuzz.parsers import Parser, parsers

CORPUS = Path(__file__).parent / "corpus"
"""Inputs that were a finding once, or that reach far; every parser gets all of them."""

_ROUND = 400
_LAST_BYTES = 1 << 20


class Last:
    """The parser and the input that are being tried, in a file that outlives the process."""

    def __init__(self, file: Path) -> None:
        file.write_bytes(bytes(_LAST_BYTES))
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), _LAST_BYTES)

    def keep(self, name: str, data: bytes) -> None:
        """Remember this one."""
        head = f"{name}: {len(data)} bytes: ".encode()
        self._map[: len(head)] = head
        end = min(_LAST_BYTES, len(head) + len(data))
        self._map[len(head) : end] = data[: end - len(head)]


def corpus() -> list[bytes]:
    """The inputs of the corpus."""
    return [file.read_bytes() for file in sorted(CORPUS.glob("*.bin"))]


def rounds(seconds: float, seed: int, now: Callable[[], float]) -> Iterator[int]:
    """Seeds, until the time is over; at least one."""
    end = now() + seconds
    while True:
        yield seed
        seed += 1
        if now() >= end:
            return


def fuzz(seconds: float, seed: int, last: Path, names: Iterable[str] = ()) -> int:
    """Try all parsers for so many seconds, and return the number of inputs. An undocumented error is an AssertionError."""
    logging.disable(logging.WARNING)
    kept, known, count = Last(last), corpus(), 0
    chosen = {name: parser for name, parser in parsers().items() if not names or name in names}
    try:
        for drawn in rounds(seconds, seed, time.monotonic):
            for name, parser in chosen.items():
                with confined():
                    for data in _inputs(parser, known, drawn, first=drawn == seed):
                        _try(name, parser, data, kept)
                        count += 1
    finally:
        logging.disable(logging.NOTSET)
    return count


def _inputs(parser: Parser, known: list[bytes], seed: int, *, first: bool) -> Iterator[bytes]:
    if first:
        yield from parser.valid
        yield from known
        yield from hostile(list(parser.valid), seed, _ROUND)
        return
    drawn = random.Random(seed)
    chosen = [*parser.valid, *drawn.sample(known, min(2, len(known)))]
    mutated = hostile(chosen, seed, 2 * _ROUND)
    for _ in range(_ROUND):  # the known tricks come first, and were tried in the first round
        next(mutated, b"")
    yield from mutated


def _try(name: str, parser: Parser, data: bytes, kept: Last) -> None:
    kept.keep(name, data)
    try:
        parser.read(data)
    except parser.errors:
        pass
    except BaseException as exc:
        CORPUS.mkdir(exist_ok=True)
        file = CORPUS / f"{hashlib.sha256(data).hexdigest()[:16]}.bin"
        file.write_bytes(data)
        raise AssertionError(f"{name}, {len(data)} bytes in {file.name}: {type(exc).__name__}: {exc}") from exc
