"""Tools and other libraries that the bench installs on demand, into folders of its own, beside penstock's environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).parent


def environment(name: str, *packages: str) -> Path:
    """The `bin` folder of bench/.venv-NAME with these packages in it; raises RuntimeError where they do not install."""
    folder = _HERE / f".venv-{name}"
    done = folder / "installed.txt"
    wanted = "\n".join(packages)
    if not done.exists() or done.read_text() != wanted:
        for command in (
            [sys.executable, "-m", "venv", str(folder)],
            [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages],
        ):
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            if ran.returncode:
                raise RuntimeError(f"{', '.join(packages)} cannot be installed: {(ran.stderr or ran.stdout).strip()[-300:]}")
        done.write_text(wanted)
    return folder / "bin"
