"""Run the unit tests as other machines would: `python -m tests.machines [--each] [NAME ...]`.

Without arguments one run has everything at once: a copy of the checkout in a folder whose name has a space, an ordinary user
with a read-only home, a machine that has just booted, random order, another time zone, the C locale, four processes. `--each`
runs one environment after the other, which shows the one that a failure belongs to. What needs root is left out without it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOBODY = 65534


@dataclass(frozen=True)
class Machine:
    """What differs from the machine the tests usually run on."""

    name: str
    uptime: int | None = None
    """What the monotonic clock shows when the tests begin, in seconds."""
    environment: Mapping[str, str] = field(default_factory=dict)
    processes: int = 2
    as_nobody: bool = False

    @property
    def needs_root(self) -> bool:
        """Whether only root can make such a machine."""
        return self.uptime is not None or self.as_nobody


_ELSEWHERE = {"TZ": "Asia/Kathmandu", "LC_ALL": "C"}
EACH = (
    Machine("random order", environment={"PENSTOCK_TEST_ORDER": "7"}),
    Machine("just booted", uptime=30),
    Machine("up for 115 days", uptime=10_000_000),
    Machine("another time zone and locale", environment=_ELSEWHERE),
    Machine("ordinary user, read-only home, folder with a space", as_nobody=True),
    Machine("one process", processes=1),
    Machine("four processes", processes=4),
)
ALL_AT_ONCE = Machine("all at once", 30, {"PENSTOCK_TEST_ORDER": "11", **_ELSEWHERE}, processes=4, as_nobody=True)


def command(machine: Machine, home: Path, arguments: list[str]) -> list[str]:
    """Return the command that runs the unit tests of the current folder on this machine."""
    pytest = [sys.executable, "-m", "pytest", "-n", str(machine.processes), "-m", "not integration and not slow"]
    pytest += ["-p", "no:cacheprovider", *arguments]
    if machine.as_nobody:
        pytest = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all", *pytest]
        # The interpreter may be below root's home, which nobody else can enter: show only its folder there.
        python = Path(sys.base_prefix)
        if Path("/root") in python.parents:
            kept = home.parent / "python"
            kept.mkdir(exist_ok=True)
            script = (
                f'mount --bind "{python}" "{kept}" && mount -t tmpfs tmpfs /root && chmod 755 /root && mkdir -p "{python}"'
                f' && mount --bind "{kept}" "{python}" && exec "$@"'
            )
            pytest = ["unshare", "--mount", "bash", "-c", script, "tests", *pytest]
    if machine.uptime is not None:
        offset = str(machine.uptime - int(time.clock_gettime(time.CLOCK_BOOTTIME)))
        pytest = ["unshare", "--time", "--monotonic", offset, "--boottime", offset, "--", *pytest]
    return pytest


def run(machine: Machine, arguments: list[str]) -> tuple[bool, str]:
    """Run the unit tests on this machine. Returns whether they passed, and the summary line."""
    with tempfile.TemporaryDirectory(prefix="other machine ") as name:
        folder = Path(name)
        folder.chmod(0o755)
        checkout, home, scratch = folder / "check out", folder / "home", folder / "tmp"
        home.mkdir()
        scratch.mkdir(mode=0o1777)
        scratch.chmod(0o1777)
        checkout.mkdir()
        _copy_to(checkout)
        environment = {**os.environ, **machine.environment, "TMPDIR": str(scratch)}
        environment["PYTHONPATH"] = f"{checkout / 'src'}:{checkout}"
        if machine.as_nobody:
            environment |= {"HOME": str(home), "USER": "nobody", "LOGNAME": "nobody"}
            environment["HYPOTHESIS_STORAGE_DIRECTORY"] = str(scratch / "hypothesis")
            subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(checkout)], check=True)
            home.chmod(0o555)
        tests = command(machine, home, arguments)
        done = subprocess.run(tests, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.splitlines()
    if done.returncode:
        print("\n".join(lines[-60:]))
    return done.returncode == 0, lines[-1] if lines else "no output"


def _copy_to(checkout: Path) -> None:
    """Copy all files that git knows, and new ones that it does not ignore."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.split("\0"):
        source = ROOT / name
        if name and (source.is_file() or source.is_symlink()):
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, checkout / name, follow_symlinks=False)


def main() -> None:
    """Run what the command line asks for, and exit with 1 if a test failed."""
    parser = argparse.ArgumentParser(prog="tests.machines", description="The unit tests as on other machines")
    parser.add_argument("names", nargs="*", help=f"of: {', '.join(machine.name for machine in EACH)}")
    parser.add_argument("--each", action="store_true", help="one environment after the other instead of all at once")
    parser.add_argument("--pytest", default="", help="further arguments of pytest, for example a folder")
    given = parser.parse_args()
    machines = [machine for machine in EACH if given.each or machine.name in given.names] or [ALL_AT_ONCE]
    failed = False
    for machine in machines:
        if machine.needs_root and os.geteuid():
            print(f"{machine.name}: left out, needs root")
            continue
        passed, summary = run(machine, given.pytest.split())
        failed |= not passed
        print(f"{machine.name}: {summary}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
