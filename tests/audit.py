"""Known vulnerabilities in what the locks pin: `make audit`. It needs pip-audit, and an index of advisories within reach."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[1]
INDEX = "https://pypi.org/pypi/pip/24.0/json"
LOCKS = ("requirements-build.lock", "requirements-dev.lock", "deploy/docker/requirements.lock")

NOT_AUDITED = 3
"""The exit code where nothing could be looked up; pip-audit's own 1 says that something was found."""


def unreachable(url: str = INDEX) -> str | None:
    """Why the index cannot be reached; None where it can."""
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            found = json.load(answer)
    except (OSError, ValueError) as exc:
        return str(getattr(exc, "reason", exc))
    return None if isinstance(found, dict) and "vulnerabilities" in found else "what answers there has no advisories, as a mirror"


def main() -> int:
    reason = unreachable()
    if reason is not None:
        print(f"nothing was audited: the index of advisories at {INDEX} cannot be reached ({reason})", file=sys.stderr)
        return NOT_AUDITED
    if importlib.util.find_spec("pip_audit") is None:
        print("nothing was audited: pip-audit is not installed. Run: pip install pip-audit", file=sys.stderr)
        return NOT_AUDITED
    command = [sys.executable, "-m", "pip_audit", "--strict", "--disable-pip", "--require-hashes", "--progress-spinner", "off"]
    return max(subprocess.run([*command, "-r", lock], cwd=ROOT, check=False).returncode for lock in LOCKS)


if __name__ == "__main__":
    sys.exit(main())
