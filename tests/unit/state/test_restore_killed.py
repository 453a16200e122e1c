"""A process that is killed while it restores leaves a store whose position is that of its content."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.batches.record_batch import RawBatch
from penstock.ids import TopicPartition
from penstock.state.engines.rocksdb import RocksDBStore
from penstock.state.restore import StoreRestorer
from penstock.state.value_formats import TIMESTAMPED

CHANGELOG = TopicPartition("counts-changelog", 0)
STEP = 2_000


def open_store(folder: Path) -> RocksDBStore:
    store = RocksDBStore("counts", value_format=TIMESTAMPED)
    store.open_db({}, folder)
    return store


def restore_for_ever(folder: Path) -> None:
    """Restores one step of a changelog after the other, and says so."""
    store = open_store(folder)
    restorer = StoreRestorer(store, store.restore_batch, CHANGELOG)
    while True:
        start = restorer.next_offset or 0
        offsets = range(start, start + STEP)
        keys: list[bytes | None] = [b"%d" % offset for offset in offsets]
        restorer.restore(RawBatch(*CHANGELOG, offsets, list(offsets), keys, [b"v"] * STEP))
        print(start, flush=True)


@pytest.mark.parametrize("steps", [1, 40])
def test_should_be_where_its_position_says_after_a_kill(tmp_path: Path, steps: int) -> None:
    root = Path(__file__).parents[3]
    code = f"from pathlib import Path; from {__name__} import restore_for_ever; restore_for_ever(Path({str(tmp_path)!r}))"
    environment = {**os.environ, "PYTHONPATH": str(root)}
    for _ in range(2):  # the second goes on from where the first was killed
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment, cwd=root) as process:
            assert process.stdout is not None
            for _ in range(steps):
                assert process.stdout.readline()
            process.send_signal(signal.SIGKILL)
        store = open_store(tmp_path)
        offset = store.committed_offset(CHANGELOG)
        assert offset is not None
        assert (offset + 1) % STEP == 0
        assert offset + 1 >= steps * STEP
        entries = dict(store.scan(None, None))
        assert entries == {b"%d" % at: at.to_bytes(8, "big") + b"v" for at in range(offset + 1)}
        store.close()
