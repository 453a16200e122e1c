"""Makes an archive of Spark's classes in the background of a running application, so that the next start is faster.

Making it runs another Spark for half a minute at the lowest priority (`spark/driver/class_archive.py`). It is not made
- if an archive exists, or making it failed before for this Spark and this Java (a `.failed` file records that),
- in a container, whose cache folder is lost with it: run `penstock warm-up` when the image is built,
- while another process of the user makes it, the machine is busy, or memory is short,
- for sessions that penstock did not make (`spark/driver/session_use.py`), for other masters than local ones, or with the
user's own JVM options for class data sharing.
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

# Shorter applications are often tests. After this time the machine is checked at this interval.
_AFTER_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 10.0
# Twice the memory of a Python process, a JVM of 1 GB and its workers.
_FREE_BYTES: Final = 2 << 30
_IN_CONTAINERS: Final = (Path("/.dockerenv"), Path("/run/.containerenv"))


class ArchiveMaker:
    """Makes the archive on a background thread when the machine is idle. Stop it with its session."""

    def __init__(self, after_seconds: float = _AFTER_SECONDS) -> None:
        self._after = after_seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-class-archive", daemon=True)

    def start(self) -> None:
        """Start waiting for an idle machine."""
        self._thread.start()

    def stop(self) -> None:
        """Stop waiting, or stop making the archive."""
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
                _log.info("Making the class archive failed: %s. Applications start as before", exc)
        else:
            _log.info("Wrote %s (%.0f MB). Applications now start faster", file, file.stat().st_size / 1e6)


def may_be_made(settings: Mapping[str, str]) -> bool:
    """Return True if a session with these settings would start faster with an archive and none exists."""
    is_local = settings.get("spark.master", "").startswith("local")
    in_container = "KUBERNETES_SERVICE_HOST" in os.environ or any(map(Path.exists, _IN_CONTAINERS))
    return is_local and not in_container and takes_archive(settings.get("spark.driver.extraJavaOptions", "")) and is_needed()


def is_needed() -> bool:
    """Return True if no archive exists and making it has not failed."""
    return not class_archive().exists() and not _failed().exists()


def has_room() -> bool:
    """Return True if half of the processors and enough memory are free. Memory counts as free if it is unknown."""
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
    """Yield True unless another process of the user makes an archive."""
    file = class_archive().with_suffix(".lock")
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
