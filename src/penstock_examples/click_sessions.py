"""Click-through sessions: the clicks of a user belong together until half an hour passes without one.

A session is written once, when nothing can be added to it any more.
Topics: `clicks` (user -> page) -> `sessions` (user -> {"clicks", "pages", "seconds"}).
"""

from collections import Counter
from datetime import timedelta
from typing import Any

from penstock import (
    Consumed,
    EmitStrategy,
    Grouped,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    StreamsBuilder,
    Topology,
    Windowed,
)

Clicks = dict[str, int]
HALF_AN_HOUR = SessionWindows(timedelta(minutes=30), grace=timedelta(minutes=5))
A_DAY = timedelta(days=1)
"""How long sessions are kept: longer than any pause of the whole input, so that none expires before it is written."""


def add(user: str, page: str, clicks: Clicks) -> Clicks:
    return {**clicks, page: clicks.get(page, 0) + 1}


def merge(user: str, earlier: Clicks, later: Clicks) -> Clicks:
    return dict(Counter(earlier) + Counter(later))


def summary(session: Windowed[str], clicks: Clicks) -> tuple[str, dict[str, Any]]:
    seconds = (session.window.end - session.window.start) // 1000
    return session.key, {"clicks": sum(clicks.values()), "pages": sorted(clicks), "seconds": seconds}


def topology() -> Topology:
    builder = StreamsBuilder()
    text, json = Serdes.string(), Serdes.json()
    sessions = (
        builder.stream("clicks", Consumed(text, text))
        .group_by_key(Grouped("by-user", text, text))
        .windowed_by(HALF_AN_HOUR)
        .emit_strategy(EmitStrategy.on_window_close())
        .aggregate(dict, add, merge, Materialized("sessions", text, json, retention=A_DAY))
    )
    sessions.to_stream().map(summary, name="summarise").to("sessions", Produced(text, json))
    return builder.build()
