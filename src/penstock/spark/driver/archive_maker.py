"""An archive of Spark's classes is made beside an application that has run for a while, so that the next start has it.

That is a Spark of its own for half a minute, with what others leave of the processors (`class_archive.py`). It is not made

- where there is one already, or where it has failed once for this Spark and this Java (a note in its place says so),
- in a container, whose cache folder goes with it: there `penstock warm-up` belongs into the image,
- while another process of the user makes it, the machine is busy, or there is little memory left,
- for sessions that penstock has not made itself (`session_use.py`), on other masters than a local one, or with options of the
  user's that concern class data sharing.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from penstock.errors import StreamsError
from penstock.spark.driver.class_archive import make_archive
from penstock.spark.driver.session import class_archive, takes_archive

_log = logging.getLogger(__name__)

# An application that runs for so long is no test; then the machine is looked at so often.
_AFTER_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 10.0
# A Python, a JVM of 1 GB and its workers take less than half of this.
_FREE_BYTES: Final = 2 << 30
_IN_CONTAINERS: Final = (Path("/.dockerenv"), Path("/run/.containerenv"))


class ArchiveMaker:
    """Waits until it can be made, makes it, and is done; to be stopped with the session that it was started for."""

    def __init__(self, after_seconds: float = _AFTER_SECONDS) -> None:
        self._after = after_seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-class-archive", daemon=True)

    def start(self) -> None:
        """Begin to wait."""
        self._thread.start()

    def stop(self) -> None:
        """Give it up; what was begun is ended."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        seconds = self._after
        while not self._stopped.wait(seconds):
            if is_needed() and has_room():
                with suppress(OSError), _alone() as alone:
                    if alone and is_needed():
                        self._make()
                return
            seconds = _AGAIN_SECONDS

    def _make(self) -> None:
        try:
            file = make_archive(aside=True, given_up=self._stopped)
        except StreamsError as exc:
            if not self._stopped.is_set():
                _failed().touch()
                _log.info("applications start as before: %s", exc)
        else:
            _log.info("wrote %s (%.0f MB): applications start sooner from now on", file, file.stat().st_size / 1e6)


def may_be_made(settings: Mapping[str, str]) -> bool:
    """Whether a session with these settings would start sooner with an archive that is made here, and there is none."""
    is_local = settings.get("spark.master", "").startswith("local")
    in_container = "KUBERNETES_SERVICE_HOST" in os.environ or any(map(Path.exists, _IN_CONTAINERS))
    return is_local and not in_container and takes_archive(settings.get("spark.driver.extraJavaOptions", "")) and is_needed()


def is_needed() -> bool:
    """Whether there is none, and making it has not failed."""
    return not class_archive().exists() and not _failed().exists()


def has_room() -> bool:
    """Whether the machine has half of its processors and enough memory to spare; memory is not looked at where it is not told."""
    if os.getloadavg()[0] > (os.cpu_count() or 1) / 2:
        return False
    try:
        told = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return int(told["MemAvailable"].split()[0]) * 1024 > _FREE_BYTES
    except (OSError, KeyError, ValueError):
        return True


def _failed() -> Path:
    return class_archive().with_suffix(".failed")


@contextmanager
def _alone() -> Iterator[bool]:
    """Whether no other process of the user makes an archive."""
    file = class_archive().with_suffix(".lock")
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
