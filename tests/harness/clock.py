"""A wall clock for other processes that can be put forward and back, by a library that is preloaded into them."""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock.c")


class NoClockError(Exception):
    """The library cannot be made here: that needs a C compiler, glibc, and a folder whose name has no space."""


class WrongClock:
    """The clock of all processes that are started with its `environment`."""

    def __init__(self, folder: Path) -> None:
        if " " in str(folder) or ":" in str(folder):
            raise NoClockError(f"LD_PRELOAD takes no path with a space or a colon: {folder}")
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise NoClockError("there is no C compiler")
        self._library, self._file = folder / "clock.so", folder / "clock"
        made = subprocess.run(
            [compiler, "-shared", "-fPIC", "-O2", "-o", str(self._library), str(_SOURCE), "-ldl", "-lpthread"],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode != 0:
            raise NoClockError(made.stderr[-500:])
        self._file.write_bytes(struct.pack("=q", 0))
        with self._file.open("r+b") as file:
            self._offset = mmap.mmap(file.fileno(), 8)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to have this clock."""
        return {"LD_PRELOAD": str(self._library), "PENSTOCK_CLOCK_FILE": str(self._file)}

    def be_wrong_by(self, seconds: int) -> None:
        """From now on; 0 puts it right."""
        self._offset[:8] = struct.pack("=q", seconds)

    def close(self) -> None:
        """Remove what was made."""
        self._offset.close()
        for path in (self._library, self._file):
            if path.exists():
                os.remove(path)
