"""`python -m bench.serdes`: what serdes cost a task, and whether columns win over single records with them.

A task reads orders, leaves some out, changes the others and writes them, without a broker: serdes, operators and what the task
does itself. Each is run as the threads run it, over columns, and record by record, in turns; the best of each counts. Writes
`serdes.md` into `bench/results`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from bench import environment
from penstock import Consumed, Produced, Serde, Serdes, StreamsBuilder, StreamsConfig
from penstock.batches.record_batch import RawBatch
from penstock.clock import SystemClock
from penstock.ids import TaskId, TopicPartition
from penstock.metrics.registry import Metrics
from penstock.runtime.task import StreamTask, TaskEnvironment
from penstock.runtime.task_metrics import TaskMetrics
from penstock.schema_registry import AvroSerde, JsonSchemaSerde
from penstock.state.cache import RecordCache
from penstock.topology.execution_plan import ExecutionMode

RECORDS, ROUNDS = 50_000, 5
_RESULTS = Path(__file__).parent / "results"
_TASK = TaskId(0, 0)
_REGISTRY = {"schema.registry.url": "mock://bench"}
_AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "product", "type": "string"},
        {"name": "price", "type": "double"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
_JSON = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}, "product": {"type": "string"}}}


@dataclass(frozen=True)
class Order:
    """What is in a topic."""

    id: int
    product: str
    price: float
    tags: list[str]


class Kind(NamedTuple):
    """A serde, the values that it is measured with, and what is done with each."""

    name: str
    serde: Serde[Any]
    values: Callable[[int], Any]
    keep: Callable[[Any, Any], bool]
    change: Callable[[Any], Any]


def _order(number: int) -> dict[str, Any]:
    return {"id": number, "product": f"product-{number % 100}", "price": number / 100, "tags": ["a", "b"]}


def _keep(_: Any, order: dict[str, Any]) -> bool:
    return bool(order["id"] % 10)


def _dearer(order: dict[str, Any]) -> dict[str, Any]:
    return {**order, "price": order["price"] * 1.1}


KINDS = (
    Kind("Avro in, Avro out", AvroSerde(_AVRO, _REGISTRY), _order, _keep, _dearer),
    Kind("JSON Schema in, JSON Schema out", JsonSchemaSerde(_JSON, _REGISTRY), _order, _keep, _dearer),
    Kind("Serdes.json()", Serdes.json(), _order, _keep, _dearer),
    Kind(
        "Serdes.json(Order)",
        Serdes.json(Order),
        lambda number: Order(**_order(number)),
        lambda _, order: bool(order.id % 10),
        lambda order: Order(order.id, order.product, order.price * 1.1, order.tags),
    ),
    Kind("Serdes.string()", Serdes.string(), str, lambda _, text: not text.endswith("0"), lambda text: text + "!"),
)


def measure(kind: Kind, records: int, batch_nodes: bool, folder: Path) -> float:
    """Records a second of CPU of one task."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed(Serdes.string(), kind.serde))
    orders.filter(kind.keep).map_values(kind.change).to("dearer", Produced(Serdes.string(), kind.serde))
    config = StreamsConfig({"application.id": "bench", "bootstrap.servers": "none:1"})
    plan = builder.build().internal_topology_builder.rewrite_topology(config).build_topology()
    partition, metrics = TopicPartition("orders", 0), TaskMetrics(Metrics(), _TASK)
    task = StreamTask.create(_TASK, plan, [partition], folder, TaskEnvironment(config, SystemClock(), metrics, RecordCache(0)))
    task.initialize()
    task.complete_restoration()
    assert task.takes_batches
    if not batch_nodes:
        task.execution_plan = replace(task.execution_plan, mode=ExecutionMode.SINGLE)
    values = [kind.serde.serializer("orders", kind.values(number)) for number in range(records)]
    keys: list[bytes | None] = [b"key-%d" % (number % 1000) for number in range(records)]
    raw = RawBatch("orders", 0, range(records), list(range(records)), keys, values)
    started = time.process_time()
    task.add_records(partition, raw, records)
    assert task.process_all() == records
    written = sum(len(part) if hasattr(part, "keys") else 1 for part in task.prepare_commit().outputs)
    took = time.process_time() - started
    assert written == sum(kind.keep(None, kind.values(number)) for number in range(records))
    return records / took


def run(records: int, rounds: int) -> list[tuple[str, float, float]]:
    """Each kind with the best of its rounds over columns, and record by record."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            rates = [
                (measure(kind, records, True, Path(folder)), measure(kind, records, False, Path(folder))) for _ in range(rounds)
            ]
            found.append((kind.name, max(rate for rate, _ in rates), max(rate for _, rate in rates)))
    return found


def page(found: list[tuple[str, float, float]], records: int, rounds: int) -> str:
    """The table as Markdown."""
    lines = [f"| {name} | {columns:,.0f} | {single:,.0f} | {columns / single:.2f} |" for name, columns, single in found]
    return "\n".join(
        [
            "# Serdes: columns beside single records",
            "",
            f"Records a second of CPU of one task that filters, maps and writes, {records:,} orders, best of {rounds} rounds, "
            "no broker. More than 1 in the last column: columns win.",
            "",
            "| serde | columns | record by record | ratio |",
            "|---|---|---|---|",
            *lines,
            "",
            "; ".join(f"{name}: {value}" for name, value in environment.describe().items()),
        ]
    )


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="bench.serdes", description="What serdes cost a task")
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    text = page(run(arguments.records, arguments.rounds), arguments.records, arguments.rounds).rstrip() + "\n"
    (_RESULTS / "serdes.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
