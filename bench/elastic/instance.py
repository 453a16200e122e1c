"""One instance of a count by key, in a process of its own; prints RUNNING when it runs, ends when its standard input does."""

from __future__ import annotations

import os
import sys
import time

from penstock import Consumed, Grouped, KafkaStreams, Materialized, Produced, Serdes, StreamsBuilder, Topology


def topology(source: str, sink: str) -> Topology:
    builder, string = StreamsBuilder(), Serdes.string()
    grouped = builder.stream(source, Consumed(string, string)).group_by_key(Grouped(key_serde=string, value_serde=string))
    counts = grouped.count(Materialized("counts", string, Serdes.long()))
    counts.to_stream().to(sink, Produced(string, Serdes.long()))
    return builder.build()


def main(application: str, brokers: str, folder: str, source: str, sink: str, standbys: str, static_id: str = "") -> None:
    config = {
        "application.id": application,
        "bootstrap.servers": brokers,
        "state.dir": folder,
        "num.standby.replicas": int(standbys),
        "processing.guarantee": "exactly_once_v2",
        "num.stream.threads": 1,
        "statestore.cache.max.bytes": 0,
        "spark.master": "local[2]",
    }
    if static_id:
        config["group.instance.id"] = static_id
    streams = KafkaStreams(topology(source, sink), config)
    streams.start()
    while streams.state.name != "RUNNING":
        if streams.failure is not None:
            raise streams.failure
        time.sleep(0.02)
    print("RUNNING", flush=True)
    sys.stdin.read()
    streams.close(30_000)


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)
