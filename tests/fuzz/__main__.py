from __future__ import annotations

import argparse
import secrets
import tempfile
from pathlib import Path

from tests.fuzz.run import fuzz


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    arguments.add_argument("--minutes", type=float, default=10.0)
    arguments.add_argument("--seed", type=int, default=None, help="that of a run to be repeated; any by default")
    arguments.add_argument("--last", type=Path, default=None, help="the file that keeps the input that is being read")
    arguments.add_argument("names", nargs="*", help="parsers; all by default")
    given = arguments.parse_args()
    seed = given.seed if given.seed is not None else secrets.randbelow(1 << 31)
    last = given.last or Path(tempfile.gettempdir()) / f"penstock-fuzz-{seed}"
    print(f"seed {seed}; the input that is being read is in {last}", flush=True)
    count = fuzz(60 * given.minutes, seed, last, given.names)
    last.unlink(missing_ok=True)
    print(f"{count:,} inputs: each gave a value or an error that is documented")


main()
