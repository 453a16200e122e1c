"""Counts by key, as `spark-submit` runs it, until there is a file `end`; then `settings.json` tells Spark's settings.

Spark gives what it runs no input.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from penstock import KafkaStreams
from penstock.client.inside import inside
from tests.integration.topologies import count_by_key


def main(config: dict[str, Any], topics: list[str], folder: str) -> None:
    parent = os.getppid()
    with KafkaStreams(count_by_key(*topics), config) as streams:
        streams.start()
        while not Path(folder, "end").exists() and os.getppid() == parent:
            time.sleep(0.1)
        context = inside(streams).session.context
        hosts = len(context.statusTracker().getExecutorInfos()) - 1  # the driver is listed too
        Path(folder, "settings.json").write_text(json.dumps({**dict(context.getConf().getAll()), "executors": hosts}))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
