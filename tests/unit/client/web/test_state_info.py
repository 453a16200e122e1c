from __future__ import annotations

from pathlib import Path

from penstock.metrics.registry import STATE_GROUP, Metric, MetricName
from tests.unit.client.web.served import Served


def measured(store: str, kind: str, name: str, value: int) -> tuple[MetricName, Metric]:
    metric = MetricName(name, STATE_GROUP, "", {"thread-id": "t", "task-id": "0_0", f"{kind}-state-id": store})
    return metric, Metric(metric, value)


def test_should_show_the_number_of_entries_only_where_it_is_known(tmp_path: Path) -> None:
    readings = dict(
        [
            measured("counts", "rocksdb", "estimate-num-keys", 119_242),
            measured("counts", "rocksdb", "total-sst-files-size", 4_000),
            measured("versions", "in-memory", "num-keys", 104),
        ]
    )
    served = Served(tmp_path).serve(readings=lambda: readings)
    try:
        stores = served.service._web._document()["stores"]
        assert (stores["counts 0_0"]["entries"], stores["counts 0_0"]["disk"]) == (None, 4_000)
        assert stores["versions 0_0"]["entries"] == 104
    finally:
        served.close()
