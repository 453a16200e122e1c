"""WordCount with Faust, at-least-once, its default: BOOTSTRAP, SOURCE, SINK and STATE_DIR come from the environment."""

import os
import struct

import faust

bootstrap, source, sink, folder = (os.environ[name] for name in ("BOOTSTRAP", "SOURCE", "SINK", "STATE_DIR"))
app = faust.App(
    f"faust-{sink}",
    broker=f"kafka://{bootstrap}",
    store="memory://",
    datadir=folder,
    topic_partitions=4,
    topic_replication_factor=1,
    consumer_auto_offset_reset="earliest",
    web_enabled=False,
)
lines = app.topic(source, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")
words = app.topic(
    f"faust-{sink}-words", partitions=4, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw"
)
counts = app.Table("counts", default=int, partitions=4, key_type=str, value_type=int)
results = app.topic(sink, key_serializer="raw", value_serializer="raw")


@app.agent(lines)
async def split(stream):  # type: ignore[no-untyped-def]
    async for line in stream:
        for word in line.split(b" "):
            await words.send(key=word, value=word)


@app.agent(words)
async def count(stream):  # type: ignore[no-untyped-def]
    async for word in stream:
        name = word.decode()
        counts[name] += 1
        await results.send(key=word, value=struct.pack(">q", counts[name]))


if __name__ == "__main__":
    app.main()
