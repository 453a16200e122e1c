"""Page views by region: each view is looked up in the table of users, then counted per region in hopping windows.

Topics: `page-views` (user -> page), `user-regions` (user -> region) -> `views-by-region` ("region@window start" -> count).
"""

from datetime import timedelta

from penstock import Consumed, Grouped, Joined, Materialized, Produced, Serdes, StreamsBuilder, TimeWindows, Topology

LAST_FIVE_MINUTES = TimeWindows(timedelta(minutes=5), grace=timedelta(minutes=1), advance=timedelta(minutes=1))


def topology() -> Topology:
    builder = StreamsBuilder()
    text = Serdes.string()
    views = builder.stream("page-views", Consumed(text, text, name="page-views"))
    regions = builder.table("user-regions", Consumed(text, text, name="users"), Materialized("regions"))
    counts = (
        views.left_join(regions, lambda page, region: region or "unknown", Joined(text, text, text, name="find-region"))
        .group_by(lambda user, region: region, Grouped("by-region", text, text))
        .windowed_by(LAST_FIVE_MINUTES)
        .count(Materialized("views-by-region"))
    )
    counts.to_stream(lambda windowed, count: f"{windowed.key}@{windowed.window.start}").to(
        "views-by-region", Produced(text, Serdes.long())
    )
    return builder.build()
