"""Spark's Python daemon, which forks the workers, for sessions that penstock makes and for executors that have penstock.

Spark starts a daemon for each environment. Until the daemon has reported its port, no task of the same JVM gets a worker, not
even an idle one (`SparkEnv.createPythonWorker` is synchronized). So all other tasks wait for what a daemon does before that.

- The daemon of a stream thread forks one worker and imports nothing itself. The worker imports, and only its own thread waits:
  1.1 -> 0.2 s of CPU before the others continue.
- The daemon of all other workers imports once what they need.

Spark puts its own zip of pyspark first on the path, which Python has to compile again in every process. Here it is the same
pyspark as the one that is installed. It is outside of `penstock` because the package alone takes half a second to import, and the
one place beside `penstock/spark/internals.py` with a private name of Spark (`tests/spark_versions` tries it).
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from typing import Any

THREAD = "PENSTOCK_THREAD"
"""The variable by which the environments of threads differ (`penstock/spark/worker/worker_process.py`)."""


class _Quiet:
    """pyspark's daemon prints whatever ends a worker. That Spark does not want it any more is none of the user's business."""

    def print_exc(self) -> None:
        if not isinstance(sys.exc_info()[1], (EOFError, ConnectionError)):
            traceback.print_exc()

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)


def main() -> None:
    """Become the daemon, until Spark has ended; Spark calls `python -m pyspark_penstock.daemon pyspark.worker`."""
    sys.path[:] = [entry for entry in sys.path if not entry.endswith("pyspark.zip")]
    if THREAD not in os.environ:
        import penstock.spark.worker.residency  # noqa: F401  (for the workers)

        gc.collect()
        gc.freeze()  # what is shared with the workers stays shared

    import pyspark.daemon

    pyspark.daemon.traceback = _Quiet()
    pyspark.daemon.manager()


if __name__ == "__main__":
    main()
