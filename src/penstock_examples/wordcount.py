"""Count words: a stream of lines becomes a table of counts.

Topics: `lines` (text) -> `word-counts` (word -> count).
"""

from penstock import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder, Topology


def topology() -> Topology:
    builder = StreamsBuilder()
    text = Serdes.string()
    counts = (
        builder.stream("lines", Consumed(text, text))
        .flat_map_values(lambda line: line.lower().split())
        .group_by(lambda _, word: word, Grouped("words", text, text))
        .count(Materialized("counts"))
    )
    counts.to_stream().to("word-counts", Produced(text, Serdes.long()))
    return builder.build()
