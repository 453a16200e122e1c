"""penstock's side as a process of its own, the twin of `java/.../App.java`.

`python -m bench.penstock_app TOPOLOGY APPLICATION_ID BOOTSTRAP STATE_DIR SOURCE OTHER SINK [key=value ...]` prints RUNNING when
it runs, and how many records it restored before in how many seconds; it ends when its standard input does.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

from bench import topologies
from penstock import KafkaStreams, QueryableStoreTypes, StateRestoreListener, StoreQueryParameters
from penstock.client.inside import inside
from penstock.ids import TopicPartition

# The file for the timings of each batch; only when profiling.
BATCHES_FILE = "BENCH_BATCHES_FILE"

# How many reads a second of the store `counts` the process does itself beside its work; none unless that is measured.
READS = "BENCH_READS"

# Process what there is as a backfill.
BACKFILL = "BENCH_BACKFILL"


class _Restored(StateRestoreListener):
    """How many records were restored, and how long it took from the first start to the last end that was told."""

    total, first, last = 0, 0.0, 0.0

    def on_restore_start(
        self, topic_partition: TopicPartition, store_name: str, starting_offset: int, ending_offset: int
    ) -> None:
        self.first = self.last = self.first or time.monotonic()

    def on_restore_end(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        self.total += total_restored
        self.last = time.monotonic()


def _record_batches(streams: KafkaStreams, path: Path) -> None:
    """Write a JSON line for each batch: its thread, its records, its seconds, and the seconds of its steps."""
    file = path.open("w")

    def on_batch(thread: int, batch: Any) -> None:
        steps = dict(batch.seconds)
        print(
            json.dumps({"thread": thread, "records": batch.records, "seconds": batch.took, "steps": steps}), file=file, flush=True
        )

    inside(streams).watch_batches(on_batch)


def _read_beside(streams: KafkaStreams, rate: float) -> None:
    view = streams.store(StoreQueryParameters("counts", QueryableStoreTypes.key_value_store()))
    chance, started, done = random.Random(1), time.monotonic(), 0
    while streams.state.name in ("RUNNING", "REBALANCING"):
        view.get(f"word-{chance.randrange(1_000):06}")
        done += 1
        if (wait := started + done / rate - time.monotonic()) > 0:
            time.sleep(wait)


def main(arguments: list[str]) -> None:
    topology, application_id, bootstrap, state_dir, source, other, sink, *settings = arguments
    config = {"application.id": application_id, "bootstrap.servers": bootstrap, "state.dir": state_dir}
    config["class.archive.enabled"] = "false"  # nothing else beside what is measured
    config |= dict(setting.split("=", 1) for setting in settings)
    restored, done = _Restored(), threading.Event()
    with KafkaStreams(topologies.named(topology, source, other, sink), config) as streams:
        streams.set_global_state_restore_listener(restored)

        def listen(new: object, _: object) -> None:
            name = getattr(new, "name", "")
            if name == "RUNNING" and not done.is_set():
                print("RUNNING", restored.total, restored.last - restored.first, flush=True)
                done.set()
            elif name == "ERROR":
                print(f"{application_id} failed: {streams.failure!r}", file=sys.stderr, flush=True)
                os._exit(1)

        streams.set_state_listener(listen)
        if os.environ.get(BACKFILL):
            streams.backfill()
        else:
            streams.start()
        if path := os.environ.get(BATCHES_FILE):
            _record_batches(streams, Path(path))
        if reads := os.environ.get(READS):
            done.wait()
            threading.Thread(target=_read_beside, args=(streams, float(reads)), daemon=True).start()
        while sys.stdin.buffer.read(1):
            continue


if __name__ == "__main__":
    main(sys.argv[1:])
