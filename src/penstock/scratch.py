"""Temporary folders that do not outlive their process: sockets of threads, logs of readers.

One is removed by `close`, otherwise at the end of the process. A process that is killed cannot do that, so whoever makes the next
one removes those of its kind that nobody holds: a folder is locked as long as its process lives, and a lock ends with it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import weakref
from pathlib import Path

from penstock.errors import PenstockError
from penstock.state.directory import LOCK_FILE, FolderLock

# One that was made a moment ago may not be locked yet.
_YOUNG_SECONDS = 60.0


class ScratchFolder:
    """A temporary folder of this process; `path` is where."""

    def __init__(self, prefix: str, parent: str | os.PathLike[str] | None = None) -> None:
        sweep(prefix, parent)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        self._end = weakref.finalize(self, _remove, self.path, FolderLock.acquire(self.path), os.getpid())

    def close(self) -> None:
        """Remove the folder with all that is in it; calling it twice does nothing."""
        self._end()


def sweep(prefix: str, parent: str | os.PathLike[str] | None = None) -> None:
    """Remove folders of this user's that begin so and whose process is gone; those of others, and what is in doubt, stay."""
    for folder in Path(parent or tempfile.gettempdir()).glob(f"{prefix}*"):
        try:
            found = folder.lstat()
            is_old = time.time() - found.st_mtime > _YOUNG_SECONDS
            if found.st_uid == os.getuid() and is_old and not folder.is_symlink() and (folder / LOCK_FILE).is_file():
                _remove(folder, FolderLock.acquire(folder), os.getpid())
        except (OSError, PenstockError):
            continue  # it is in use, or somebody else removes it


def _remove(folder: Path, lock: FolderLock, process: int) -> None:
    """A forked child that ends does not take its parent's folder with it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()
