"""An instance of a counting application in a process of its own, to be killed: `python -m tests.integration.instance …`."""

from __future__ import annotations

import sys
import threading

from penstock import KafkaStreams
from tests.integration.topologies import count_by_key, word_count


def main(brokers: str, application: str, source: str, sink: str, folder: str, counted: str = "keys") -> None:
    """Run until killed, or until the standard input ends."""
    topology = word_count if counted == "words" else count_by_key
    config = {
        "application.id": application,
        "bootstrap.servers": brokers,
        "state.dir": folder,
        "processing.guarantee": "exactly_once_v2",
        "statestore.cache.max.bytes": 0,
        "num.stream.threads": 1,
        "consumer.session.timeout.ms": 6_000,
        "spark.master": "local[1]",
    }
    with KafkaStreams(topology(source, sink), config) as streams:
        streams.start()
        ended = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
        ended.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
