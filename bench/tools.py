"""Tools and other libraries that the bench installs on demand, into folders of its own, beside penstock's environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).parent


def environment(name: str) -> Path:
    """The `bin` folder of bench/.venv-NAME with what bench/requirements/NAME.lock pins; raises RuntimeError where that fails."""
    folder, lock = _HERE / f".venv-{name}", _HERE / "requirements" / f"{name}.lock"
    done = folder / "installed.txt"
    wanted = lock.read_text()
    if not done.exists() or done.read_text() != wanted:
        # Wheels only: what comes as source would run, and would fetch what builds it without a pin.
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for command in (
            [sys.executable, "-m", "venv", str(folder)],
            [*pip, "--require-hashes", "--only-binary", ":all:", "-r", str(lock)],
        ):
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            if ran.returncode:
                raise RuntimeError(f"{lock.name} cannot be installed: {(ran.stderr or ran.stdout).strip()[-300:]}")
        done.write_text(wanted)
    return folder / "bin"
