"""The three most viewed articles of each hour.

Views are counted per article and hour. When an hour is over its final counts go on, are grouped into one list, and the top
of that list is written; nothing is written while the hour lasts.
Topics: `article-views` (user -> article) -> `top-articles` (start of the hour -> [[article, count], …]).
"""

from datetime import timedelta

from penstock import (
    BufferConfig,
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    Windowed,
)

N = 3
HOURS = TimeWindows(timedelta(hours=1), grace=timedelta(minutes=5))
Counts = dict[str, int]


def by_hour(article: Windowed[str], count: int) -> tuple[int, tuple[str, int]]:
    return article.window.start, (article.key, count)


def with_article(hour: int, entry: tuple[str, int], counts: Counts) -> Counts:
    article, count = entry
    return {**counts, article: count}


def without_article(hour: int, entry: tuple[str, int], counts: Counts) -> Counts:
    return {article: count for article, count in counts.items() if article != entry[0]}


def top(counts: Counts) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:N]


def topology() -> Topology:
    builder = StreamsBuilder()
    text, json, number = Serdes.string(), Serdes.json(), Serdes.long()
    counts = (
        builder.stream("article-views", Consumed(text, text))
        .group_by(lambda user, article: article, Grouped("by-article", text, text))
        .windowed_by(HOURS)
        .count(Materialized("views"))
        .suppress(Suppressed.until_window_closes(BufferConfig.unbounded()), name="when-the-hour-is-over")
    )
    lists = counts.group_by(by_hour, Grouped("by-hour", number, json)).aggregate(
        dict, with_article, without_article, Materialized("articles-of-an-hour", number, json)
    )
    lists.map_values(top, name="top").to_stream().to("top-articles", Produced(number, json))
    return builder.build()
