"""Short words for what most scenarios need; Kit.java has the same."""

from __future__ import annotations

from typing import Any

from penstock import Consumed, Grouped, Materialized, Produced, Serdes, Windowed, WindowedSerdes

S = Serdes.string()
L = Serdes.long()
J = Serdes.json()
IN = Consumed(S, S)
LONGS_IN = Consumed(S, L)
OUT = Produced(S, S)
LONGS_OUT = Produced(S, L)
JSON_OUT = Produced(S, J)
GROUPED = Grouped(key_serde=S, value_serde=S)
JSON_GROUPED = Grouped(key_serde=S, value_serde=J)


def windowed_out(size: int, values: Any) -> Produced[Any, Any]:
    return Produced(WindowedSerdes.time_windowed(S, size), values)


def session_out(values: Any) -> Produced[Any, Any]:
    return Produced(WindowedSerdes.session_windowed(S), values)


def stream(builder: Any, topic: str) -> Any:
    return builder.stream(topic, IN)


def table(builder: Any, topic: str) -> Any:
    return builder.table(topic, IN)


def by_key(builder: Any, topic: str) -> Any:
    return stream(builder, topic).group_by_key(GROUPED)


def stored(values: Any, name: str | None = None, **options: Any) -> Materialized[Any, Any]:
    return Materialized(name, S, values, **options)


def text(value: Any) -> str:
    return "null" if value is None else str(value)


def plus(a: Any, b: Any) -> str:
    """Reducer: both, with a plus between."""
    return f"{text(a)}+{text(b)}"


def append(key: Any, value: Any, aggregate: Any) -> str:
    """Aggregator of texts: the aggregate, a plus, the value."""
    return f"{text(aggregate)}+{text(value)}"


def strike(key: Any, value: Any, aggregate: Any) -> str:
    """Subtractor of texts: the aggregate, a minus, the value."""
    return f"{text(aggregate)}-{text(value)}"


def fuse(key: Any, a: Any, b: Any) -> str:
    """Session merger of texts."""
    return f"({text(a)}|{text(b)})"


def add_length(key: Any, value: str | None, aggregate: int) -> int:
    """Aggregator of lengths."""
    return aggregate + (100 if value is None else len(value))


def pair(left: Any, right: Any) -> str:
    """Joiner: both, with a slash between."""
    return f"{text(left)}/{text(right)}"


def keyed_pair(key: Any, left: Any, right: Any) -> str:
    """Joiner that sees the key."""
    return f"{text(key)}:{pair(left, right)}"


def show(windowed: Windowed[Any]) -> str:
    return f"{windowed.key}@{windowed.window.start}/{windowed.window.end}"


def initial(value: str | None) -> str | None:
    """The first letter, a grouping that changes keys; None stays None."""
    return value[0] if value else None


def boxed(value: str | None) -> Any:
    """A text as an object."""
    return None if value is None else {"text": value}


def noted() -> Any:
    """Nothing noted yet."""
    return {"count": 0, "texts": []}


def note(key: Any, value: Any, so_far: Any) -> Any:
    """Aggregator that notes the text of an object; it changes what it gets, as many do."""
    so_far["count"] += 1
    so_far["texts"].append(value["text"])
    return so_far


def zero() -> str:
    return "0"
