"""`python -m bench.reads`: point reads per second, and latency of processing with and without readers beside it.

Writes `reads.md` and `reads.json` into `bench/results`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy

from bench import environment, topologies
from bench.application import Application, Spec
from bench.job import EXACTLY_ONCE
from bench.jobs.latency import trickle
from bench.load import create_topic, write
from bench.penstock_app import READS
from bench.reads.clients import Answered, Clients, read_for
from penstock import DevBroker, KafkaStreams, QueryableStoreTypes, StoreQueryParameters

_RESULTS = Path(__file__).parents[1] / "results"
_PARTITIONS, _RATE, _READS = 4, 100, 1_000
NOBODY, IN_PROCESS, OVER_HTTP = "no readers", "1,000 reads/s in process", "1,000 reads/s over HTTP"
READERS = (NOBODY, IN_PROCESS, OVER_HTTP)
_WORDS = [f"word-{number:06}" for number in range(100_000)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.reads", description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each reader is measured")
    parser.add_argument("--rounds", type=int, default=3, help="how often latency is measured, each with and without readers")
    parser.add_argument("--results", type=Path, default=_RESULTS)
    arguments = parser.parse_args()
    with DevBroker() as broker:
        create_topic(broker.bootstrap_servers, "words", _PARTITIONS)
        write(broker.bootstrap_servers, "words", ((word.encode(), word.encode(), 0, -1) for word in _WORDS))
        reads = measure_reads(broker.bootstrap_servers, arguments.seconds)
        latency = measure_latency(broker.bootstrap_servers, arguments.rounds)
    result = {"environment": environment.describe(), "reads": reads, "latency": latency}
    arguments.results.mkdir(parents=True, exist_ok=True)
    (arguments.results / "reads.json").write_text(json.dumps(result, indent=1) + "\n")
    (arguments.results / "reads.md").write_text(page(result))
    print(page(result))


# -- reads per second


def measure_reads(bootstrap: str, seconds: float) -> dict[str, dict[str, float]]:
    """In this process, with one thread and with eight, and over HTTP, with one client and with eight; nothing is processed."""
    create_topic(bootstrap, "counts", _PARTITIONS)
    config = {
        "application.id": "reads",
        "bootstrap.servers": bootstrap,
        "state.dir": tempfile.mkdtemp(prefix="bench-reads-"),
        "application.server": "localhost:0",
        **EXACTLY_ONCE,
    }
    found = {}
    with KafkaStreams(topologies.named("named", "words", "-", "counts"), config) as streams:
        streams.start()
        view = _when_counted(streams)
        for threads in (1, 8):
            found[f"in process, {threads} thread{'s'[: threads > 1]}"] = _in_process(view, threads, seconds)
        host = streams.server_host
        assert host is not None
        for clients in (1, 8):
            answered = read_for((host.host, host.port), _WORDS, clients, seconds)
            found[f"HTTP, {clients} client{'s'[: clients > 1]}"] = _figures(answered)
    return found


def _when_counted(streams: KafkaStreams) -> Any:
    while streams.state.name != "RUNNING":
        time.sleep(0.1)
    view = streams.store(StoreQueryParameters("counts", QueryableStoreTypes.key_value_store()))
    while any(view.get(word) != 1 for word in (_WORDS[0], _WORDS[-1], *random.Random(1).choices(_WORDS, k=200))):
        time.sleep(0.5)
    time.sleep(3)
    return view


def _in_process(view: Any, threads: int, seconds: float) -> dict[str, float]:
    answered: list[Answered] = []

    def read(seed: int) -> None:
        chance, latencies, started = random.Random(seed), list[float](), time.monotonic()
        while time.monotonic() - started < seconds:
            before = time.perf_counter()
            assert view.get(chance.choice(_WORDS)) == 1
            latencies.append(time.perf_counter() - before)
        answered.append(Answered(len(latencies), time.monotonic() - started, latencies))

    running = [threading.Thread(target=read, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return _figures(answered)


def _figures(answered: list[Answered]) -> dict[str, float]:
    latencies = [latency for one in answered for latency in one.latencies]
    return {
        "reads_per_second": round(sum(one.answers / one.seconds for one in answered)),
        "p50_ms": round(float(numpy.percentile(latencies, 50)) * 1000, 3),
        "p99_ms": round(float(numpy.percentile(latencies, 99)) * 1000, 3),
    }


# -- latency of processing


def measure_latency(bootstrap: str, rounds: int) -> list[dict[str, Any]]:
    """Produced until read by a read_committed consumer, at 100 records/s; each round with every kind of readers, in turn."""
    found = []
    for number in range(rounds):
        for readers in (*READERS[number % len(READERS) :], *READERS[: number % len(READERS)]):
            measured = _latency(bootstrap, f"latency-{number}-{READERS.index(readers)}", readers)
            found.append({"round": number + 1, "readers": readers, **measured})
            print(found[-1], flush=True)
    return found


def _latency(bootstrap: str, name: str, readers: str) -> dict[str, float]:
    source, sink = f"{name}-in", f"{name}-out"
    create_topic(bootstrap, source, _PARTITIONS)
    create_topic(bootstrap, sink, _PARTITIONS)
    words = _WORDS[:1_000]
    write(bootstrap, source, ((word.encode(), word.encode(), 0, -1) for word in words))
    port = _free_port()
    settings = {**EXACTLY_ONCE, "application.server": f"localhost:{port}"}
    os.environ[READS] = str(_READS) if readers == IN_PROCESS else ""
    with tempfile.TemporaryDirectory(prefix="bench-reads-") as folder:
        spec = Spec("named", name, bootstrap, folder, source, sink, settings=settings)
        with Application("penstock", spec) as app:
            app.wait_until_running()
            trickle(app, spec, _PARTITIONS, _RATE, 1.0, 5.0)  # all words are there before they are asked for
            if readers != OVER_HTTP:
                return _quantiles(*trickle(app, spec, _PARTITIONS, _RATE, 5.0, 25.0))
            with Clients(("localhost", port), words, 8, _READS) as clients:
                measured = _quantiles(*trickle(app, spec, _PARTITIONS, _RATE, 5.0, 25.0))
    return {**measured, **{f"read_{name}": value for name, value in _figures(clients.answered).items()}}


def _quantiles(latencies: list[float], cpu: Any) -> dict[str, float]:
    return {
        "p50_ms": round(float(numpy.percentile(latencies, 50)) * 1000, 1),
        "p99_ms": round(float(numpy.percentile(latencies, 99)) * 1000, 1),
        "cpu_percent": round(cpu.share * 100),
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port: int = probe.getsockname()[1]
        return port


# -- the page


def page(result: dict[str, Any]) -> str:
    """The tables."""
    lines = [
        "# Reading live state",
        "",
        f"{len(_WORDS):,} keys in {_PARTITIONS} partitions on disk; random keys; nothing is processed meanwhile. HTTP: a "
        "process and a connection for each client, one point query after the other.",
        "",
        "| | reads/s | p50 | p99 |",
        "|---|---|---|---|",
        *(
            f"| {name} | {one['reads_per_second']:,} | {one['p50_ms']} ms | {one['p99_ms']} ms |"
            for name, one in result["reads"].items()
        ),
        "",
        f"Latency of processing, produced until read by a read_committed consumer, WordCount through a repartition, "
        f"{_RATE} records/s, exactly-once; medians of the rounds. HTTP: eight clients, processes on the same machine.",
        "",
        "| | p50 | p99 | CPU of the application | HTTP: reads/s answered, p99 |",
        "|---|---|---|---|---|",
    ]
    for readers in READERS:
        rounds = [one for one in result["latency"] if one["readers"] == readers]
        if rounds:
            middle = {key: statistics.median(one[key] for one in rounds) for key in rounds[0] if key != "readers"}
            beside = f"{middle['read_reads_per_second']:,.0f}, {middle['read_p99_ms']} ms" if readers == OVER_HTTP else ""
            lines.append(
                f"| {readers} | {middle['p50_ms']} ms | {middle['p99_ms']} ms | {middle['cpu_percent']:.0f} % | {beside} |"
            )
    lines += ["", ", ".join(f"{name} {value}" for name, value in result["environment"].items()), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
