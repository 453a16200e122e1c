"""WordCount, as it runs in a pod: Spark's settings come from `spark-submit`, the application's from the environment."""

import os
import signal
import threading

from penstock import KafkaStreams
from penstock_examples.wordcount import topology


def main() -> None:
    """Until the pod is told to stop."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    streams = KafkaStreams(
        topology(),
        {
            "application.id": os.environ.get("APPLICATION_ID", "word-count"),
            "bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"],
            "processing.guarantee": "exactly_once_v2",
            "state.dir": "/var/lib/penstock",
        },
    )
    streams.start()
    while not stopped.wait(1) and streams.failure is None:
        pass
    streams.close()
    if streams.failure is not None:
        raise SystemExit(f"the application has failed: {streams.failure}")


if __name__ == "__main__":
    main()
