"""An application one of whose tasks has trouble, in a process of its own: keys that begin with `slow` or `poison` make it.

Tells when it runs, and each time its handler of uncaught exceptions is asked. Ends when its standard input does.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from bench.elastic.instance import tell
from penstock import (
    Consumed,
    Grouped,
    KafkaStreams,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    StreamThreadExceptionResponse,
    Topology,
)

SLEEP_SECONDS = 2.0


def topology(kind: str, source: str, sink: str, repaired: str) -> Topology:
    """`map`: stateless; `count`: by key; `shuffled`: by what is in the value, with the trouble behind the shuffle.

    Every record comes out with its key and which of that key it is: as text for `map`, counted for the others.
    """
    builder, string, long = StreamsBuilder(), Serdes.string(), Serdes.long()
    records = builder.stream(source, Consumed(string, string))
    counted, by_text = Materialized("counts", string, long), Grouped(key_serde=string, value_serde=string)
    meet = partial(meet_trouble, repaired)
    if kind == "map":
        records.map_values(meet, with_key=True).to(sink, Produced(string, string))
    elif kind == "count":
        records.map_values(meet, with_key=True).group_by_key(by_text).count(counted).to_stream().to(sink, Produced(string, long))
    elif kind == "shuffled":
        counts = records.group_by(lambda _, name: name, by_text).count(counted)
        counts.to_stream().map_values(meet, with_key=True).to(sink, Produced(string, long))
    else:
        raise ValueError(f"there is no topology {kind!r}")
    return builder.build()


def meet_trouble(repaired: str, key: str, value: Any) -> Any:
    """The value as it is; for some keys after a long sleep, or not at all until the file `repaired` is there."""
    if key.startswith("slow"):
        time.sleep(SLEEP_SECONDS)
    if key.startswith("poison") and not Path(repaired).exists():
        raise ValueError(f"{key} cannot be digested")
    return value


def _replace(_: BaseException) -> StreamThreadExceptionResponse:
    tell("FAILED")
    return StreamThreadExceptionResponse.REPLACE_THREAD


def main(application: str, brokers: str, folder: str, source: str, sink: str, *settings: str) -> None:
    """Run until the standard input ends."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    for noisy in ("kafka", "py4j"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    given = dict(setting.split("=", 1) for setting in settings)
    kind = given.pop("kind")
    config = {
        "application.id": application,
        "bootstrap.servers": brokers,
        "state.dir": folder,
        "statestore.cache.max.bytes": 0,
        **given,
    }
    streams = KafkaStreams(topology(kind, source, sink, str(Path(folder) / "repaired")), config)
    streams.set_uncaught_exception_handler(_replace)
    streams.start()
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    told = False
    while not ended.wait(0.1):
        if streams.failure is not None:
            raise streams.failure
        if not told and streams.state.name == "RUNNING":
            told = True
            tell("RUNNING")
    streams.close(60_000)


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)
