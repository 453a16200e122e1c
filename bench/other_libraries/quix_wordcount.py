"""WordCount with Quix Streams, exactly-once: `quix_wordcount.py BOOTSTRAP SOURCE SINK STATE_DIR`."""

import struct
import sys

from quixstreams import Application, State

bootstrap, source, sink, folder = sys.argv[1:]
app = Application(
    broker_address=bootstrap,
    consumer_group=f"quix-{sink}",
    auto_offset_reset="earliest",
    processing_guarantee="exactly-once",
    state_dir=folder,
    loglevel="ERROR",
)


def count(word: str, state: State) -> bytes:
    number = state.get("count", 0) + 1
    state.set("count", number)
    return struct.pack(">q", number)


lines = app.dataframe(app.topic(source, key_deserializer="string", value_deserializer="string"))
words = lines.apply(lambda line: line.split(" "), expand=True)
grouped = words.group_by(lambda word: word, name="words", key_serializer="string", key_deserializer="string")
grouped.apply(count, stateful=True).to_topic(app.topic(sink, key_serializer="string", value_serializer="bytes"))
app.run()
