"""A little input for each example, and how its topics are read: what `penstock example` writes and prints."""

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple

from penstock import Serde, Serdes

_HOUR = 3_600_000
_TEXT: Serde[str] = Serdes.string()
_JSON: Serde[Any] = Serdes.json()
_LONG: Serde[int] = Serdes.long()

EXAMPLES = sorted(
    module.name for module in pkgutil.iter_modules(importlib.import_module(__package__).__path__) if module.name[0] != "_"
)

Entry = tuple[str, Any, Any, int]
"""Topic, key, value, and the seconds after the first full hour before now."""


class SampleRecord(NamedTuple):
    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int


@dataclass(frozen=True)
class Sample:
    """Input and output topics with their serdes, and the entries to write, in order."""

    inputs: dict[str, tuple[Serde[Any], Serde[Any]]]
    entries: list[Entry]
    outputs: dict[str, tuple[Serde[Any], Serde[Any]]] = field(default_factory=dict)
    stores: tuple[str, ...] = ()

    @property
    def topics(self) -> list[str]:
        return [*self.inputs, *self.outputs]

    def records(self, now_ms: int) -> Iterator[SampleRecord]:
        start = now_ms - now_ms % _HOUR - _HOUR
        for topic, key, value, seconds in self.entries:
            keys, values = self.inputs[topic]
            yield SampleRecord(topic, keys.serializer(topic, key), values.serializer(topic, value), start + 1000 * seconds)


def module_of(example: str) -> ModuleType:
    return importlib.import_module(f"{__package__}.{example}")


SAMPLES = {
    "accounts": Sample(
        {"transfers": (_TEXT, _LONG)},
        [
            ("transfers", account, amount, second)
            for second, (account, amount) in enumerate([("ada", 5000), ("bob", 700), ("ada", -1200)])
        ],
        stores=("balances", "movements"),
    ),
    "anomaly_detector": Sample(
        {"readings": (_TEXT, Serdes.double())},
        [
            *(("readings", "boiler", 20.0 + second % 3, second) for second in range(20)),
            ("readings", "boiler", 95.0, 30),
            ("readings", "pump", 1.0, 360),
        ],
        {"anomalies": (_TEXT, _TEXT)},
    ),
    "click_sessions": Sample(
        {"clicks": (_TEXT, _TEXT)},
        [
            ("clicks", "ada", "/home", 0),
            ("clicks", "ada", "/shoes", 40),
            ("clicks", "bob", "/home", 60),
            ("clicks", "ada", "/basket", 300),
            ("clicks", "eve", "/home", 3000),
        ],
        {"sessions": (_TEXT, _JSON)},
    ),
    "fraud_detection": Sample(
        {"payments": (_TEXT, _JSON), "withdrawals": (_TEXT, _JSON)},
        [
            ("payments", "card-1", {"country": "FR", "amount": 40}, 0),
            ("withdrawals", "card-1", {"country": "BR", "amount": 500}, 10),
            ("withdrawals", "card-1", {"country": "BR", "amount": 500}, 20),
            ("payments", "card-2", {"country": "FR", "amount": 1}, 60),
        ],
        {"fraud-reports": (_TEXT, _JSON)},
    ),
    "orders_customers": Sample(
        {"orders": (_TEXT, _JSON), "customers": (_TEXT, _JSON)},
        [
            ("customers", "c1", {"name": "Ada", "city": "London"}, 0),
            ("orders", "o1", {"customer": "c1", "item": "an engine"}, 1),
            ("orders", "o2", {"customer": "c2", "item": "a boat"}, 2),
            ("customers", "c2", {"name": "Bob", "city": "Bremen"}, 3),
        ],
        {"shipments": (_TEXT, _TEXT)},
    ),
    "page_views_by_region": Sample(
        {"page-views": (_TEXT, _TEXT), "user-regions": (_TEXT, _TEXT)},
        [
            ("user-regions", "ada", "europe", 0),
            ("user-regions", "bob", "asia", 0),
            ("page-views", "ada", "/home", 10),
            ("page-views", "bob", "/home", 11),
            ("page-views", "eve", "/home", 12),
            ("page-views", "ada", "/shoes", 13),
        ],
        {"views-by-region": (_TEXT, _LONG)},
    ),
    "sales_history": Sample(
        {"sales": (_TEXT, _LONG)},
        [("sales", product, cents, second) for second, (product, cents) in enumerate([("boat", 1000), ("rope", 70)])],
        {"revenue": (_TEXT, _LONG)},
    ),
    "top_n_per_window": Sample(
        {"article-views": (_TEXT, _TEXT)},
        [
            *(
                ("article-views", f"user-{view}", article, view)
                for article, times in {"kafka": 4, "spark": 3, "python": 2, "java": 1}.items()
                for view in range(times)
            ),
            ("article-views", "user-1", "kafka", 3600 + 300),
        ],
        {"top-articles": (_LONG, _JSON)},
    ),
    "wordcount": Sample(
        {"lines": (_TEXT, _TEXT)},
        [("lines", None, line, second) for second, line in enumerate(["All streams lead to Kafka", "Hello Kafka Streams"])],
        {"word-counts": (_TEXT, _LONG)},
    ),
}
