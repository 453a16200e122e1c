"""Spark's Python daemon for sessions that penstock makes: it forks workers that have everything imported already.

Spark puts its own zip of pyspark first on the path, which Python has to compile again in every process. Here it is the same
pyspark as the one that is installed; and what all workers import is imported once, before they are forked.

Nothing that is imported before the path is put right may import pyspark: the packages above this module do not.
"""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Become the daemon; Spark calls `python -m penstock.spark.worker.daemon pyspark.worker`."""
    sys.path[:] = [entry for entry in sys.path if not entry.endswith("pyspark.zip")]

    import penstock.spark.worker.lane_worker  # noqa: F401  (for the workers)
    from penstock.spark.internals import run_daemon

    gc.collect()
    gc.freeze()  # what is shared with the workers stays shared
    run_daemon()


if __name__ == "__main__":
    main()
