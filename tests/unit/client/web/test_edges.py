from __future__ import annotations

from penstock import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder
from penstock.client.web.edges import Edges

text = Serdes.string()


def test_should_have_a_rate_for_every_edge_that_is_drawn() -> None:
    builder = StreamsBuilder()
    words = builder.stream("lines", Consumed(text, text)).flat_map_values(str.split)
    counts = words.group_by(lambda _, word: word, Grouped("words", text, text)).count(Materialized("counts", text, Serdes.long()))
    counts.to_stream().to("out", Produced(text, Serdes.long()))
    builder.global_table("names", Consumed(text, text), Materialized("names", text, text))
    description = builder.build().describe()
    inner = {
        (node.name, below.name): 10.0 for part in description.subtopologies for node in part.nodes for below in node.successors
    }
    rates = {(edge["from"], edge["to"]): edge["rate"] for edge in Edges(description).rates(inner, {"lines": 2.0})}
    assert rates["lines", "KSTREAM-SOURCE-0000000000"] == 2.0
    outer = {edge: rate for edge, rate in rates.items() if edge not in inner}
    assert all(rates[edge] == 10.0 for edge in inner)
    assert sum(rate for (start, _), rate in outer.items() if start == "words-repartition") == 10.0
    assert sum(rate for (_, end), rate in outer.items() if end in ("out", "words-repartition")) == 20.0
    assert {rate for (start, _), rate in outer.items() if start == "names"} == {0.0}
