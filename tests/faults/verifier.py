"""Compares what a disturbed run has written with what an undisturbed one writes, and stores with their changelogs."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.state.engines.rocksdb import RocksDBStore
from penstock.state.value_formats import TIMESTAMPED
from tests.faults.applications import Application, Inputs
from tests.harness.kafka import Kafka, Message


def findings(application: Application, name: str, kafka: Kafka, inputs: Inputs, exactly_once: bool) -> list[str]:
    """What is wrong with the output of an application; empty where nothing is."""
    messages = kafka.read(f"{name}-out")
    expected = application.expected(inputs)
    if not exactly_once:
        return [] if application.is_complete(expected, messages) else [f"{name}: something was lost ({len(messages)} records)"]
    found = application.found(messages)
    wrong = [key for key in {*expected, *found} if expected.get(key) != found.get(key)]
    return [f"{name}: {key!r} is {_short(found.get(key))}, expected {_short(expected.get(key))}" for key in sorted(wrong)[:5]]


def hanging_transactions(kafka: Kafka, topics: Sequence[str]) -> list[str]:
    """Partitions in which an open transaction hides records from readers."""
    wrong = []
    for topic in topics:
        stable, all_of_it = kafka.ends(topic), kafka.ends(topic, committed=False)
        wrong += [f"{topic}-{p}: stable up to {stable[p]} of {end}" for p, end in all_of_it.items() if stable[p] != end]
    return wrong


def stores_that_differ(application: Application, name: str, kafka: Kafka, folder: Path) -> list[str]:
    """Local stores that do not hold what their changelogs say; for a closed application."""
    wrong = []
    for store in application.stores:
        changelog = kafka.read(f"{name}-{store}-changelog")
        for task in sorted((folder / name).glob("*_*")):
            if (task / "rocksdb" / store).is_dir():
                partition = int(task.name.rpartition("_")[2])
                logged = _latest([m for m in changelog if m.partition == partition])
                if (local := _contents(task, store)) != logged:
                    different = [k for k in {*local, *logged} if local.get(k) != logged.get(k)]
                    wrong.append(f"{name} task {task.name} store {store}: {len(different)} keys differ, such as {different[0]!r}")
    return wrong


def _latest(messages: Sequence[Message]) -> Mapping[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for message in messages:
        assert message.key is not None
        if message.value is None:
            found.pop(message.key, None)
        else:
            found[message.key] = struct.pack(">q", message.timestamp) + message.value
    return found


def _contents(task: Path, name: str) -> Mapping[bytes, bytes]:
    store = RocksDBStore(name, value_format=TIMESTAMPED)
    store.open_db({}, task)
    try:
        with store.all() as entries:
            return dict(entries)
    finally:
        store.close()


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 200 else f"{text[:90]} … {text[-90:]}"
