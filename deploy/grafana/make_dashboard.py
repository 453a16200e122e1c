"""Writes `penstock.json`, the dashboard: `python deploy/grafana/make_dashboard.py`.

A panel is a title, a unit and its queries; the rest is the same for all, which by hand would be a thousand lines.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).parent / "penstock.json"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
INSTANCE = 'instance=~"$instance"'


class Panel(NamedTuple):
    title: str
    unit: str
    queries: dict[str, str]
    help: str = ""
    kind: str = "timeseries"


STATES = ["CREATED", "REBALANCING", "RUNNING", "PENDING_SHUTDOWN", "NOT_RUNNING", "PENDING_ERROR", "ERROR"]

ROWS: dict[str, list[Panel]] = {
    "Overview": [
        Panel("State", "none", {"{{instance}}": "penstock_stream_client_state{%s}"}, "2 is RUNNING", "stat"),
        Panel("Alive threads", "none", {"{{instance}}": "penstock_stream_alive_stream_threads{%s}"}, kind="stat"),
        Panel("Failed threads", "none", {"{{instance}}": "penstock_stream_failed_stream_threads{%s}"}, kind="stat"),
        Panel(
            "Backlog", "short", {"{{instance}}": "penstock_batch_backlog_records{%s}"}, "Records that the last batch left", "stat"
        ),
    ],
    "Throughput and latency": [
        Panel(
            "Records",
            "reqps",
            {
                "in {{instance}}": "rate(penstock_batch_record_total{%s}[$__rate_interval])",
                "processed {{instance}}": "sum by (instance) (rate(penstock_stream_thread_process_total{%s}[$__rate_interval]))",
                "out {{instance}}": "sum by (instance) "
                "(rate(penstock_stream_topic_records_produced_total{%s}[$__rate_interval]))",
            },
        ),
        Panel(
            "Backlog",
            "short",
            {"{{instance}}": "penstock_batch_backlog_records{%s}"},
            "Stays above zero where the application cannot keep up",
        ),
        Panel(
            "Batch time",
            "ms",
            {
                "average {{instance}}": "penstock_batch_batch_time_avg{%s}",
                "longest {{instance}}": "penstock_batch_batch_time_max{%s}",
            },
            "How long results wait for their commit",
        ),
        Panel(
            "Where the time goes",
            "ms",
            {
                part: f"sum(rate(penstock_batch_{part}_time_total{{%s}}[$__rate_interval])) / "
                "sum(rate(penstock_batch_batch_total{%s}[$__rate_interval]))"
                for part in ("fetch", "process", "commit", "store")
            },
            "Milliseconds of a batch",
        ),
    ],
    "Tasks": [
        Panel(
            "Dropped records",
            "reqps",
            {"{{task_id}}": "sum by (task_id) (rate(penstock_stream_task_dropped_records_total{%s}[$__rate_interval]))"},
            "Late, or skipped by a handler",
        ),
        Panel(
            "Records by input topic",
            "reqps",
            {"{{topic}}": "sum by (topic) (rate(penstock_stream_topic_records_consumed_total{%s}[$__rate_interval]))"},
        ),
        Panel(
            "Busy threads",
            "percentunit",
            {
                "process {{thread_id}}": "penstock_stream_thread_process_ratio{%s}",
                "commit {{thread_id}}": "penstock_stream_thread_commit_ratio{%s}",
            },
        ),
        Panel("Threads waiting for a core", "none", {"{{instance}}": "penstock_batch_threads_waiting_for_core{%s}"}),
    ],
    "State": [
        Panel(
            "Size on disk",
            "bytes",
            {"{{rocksdb_state_id}}": "sum by (rocksdb_state_id) (penstock_stream_state_total_sst_files_size{%s})"},
        ),
        Panel(
            "Keys (estimated)",
            "short",
            {"{{rocksdb_state_id}}": "sum by (rocksdb_state_id) (penstock_stream_state_estimate_num_keys{%s})"},
        ),
        Panel(
            "Memory of RocksDB",
            "bytes",
            {
                "memtables": "sum(penstock_stream_state_size_all_mem_tables{%s})",
                "block caches": "sum(penstock_stream_state_block_cache_usage{%s})",
                "table readers": "sum(penstock_stream_state_estimate_table_readers_mem{%s})",
            },
        ),
        Panel(
            "Restoring",
            "short",
            {
                "records a second {{instance}}": "penstock_stream_state_updater_restore_records_rate{%s}",
                "active tasks {{instance}}": "penstock_stream_state_updater_active_restoring_tasks{%s}",
                "standby tasks {{instance}}": "penstock_stream_state_updater_standby_updating_tasks{%s}",
            },
        ),
    ],
    "Kafka clients": [
        Panel(
            "Bytes from and to the brokers",
            "Bps",
            {
                "read {{instance}}": "sum by (instance) (rate(penstock_consumer_incoming_byte_total{%s}[$__rate_interval]))",
                "written {{instance}}": "sum by (instance) (rate(penstock_producer_outgoing_byte_total{%s}[$__rate_interval]))",
            },
        ),
        Panel(
            "Latency of requests to produce",
            "ms",
            {
                "average {{client_id}}": "penstock_producer_request_latency_avg{%s}",
                "longest {{client_id}}": "penstock_producer_request_latency_max{%s}",
            },
        ),
        Panel(
            "Connections",
            "none",
            {
                "consumers": "sum(penstock_consumer_connection_count{%s})",
                "producers": "sum(penstock_producer_connection_count{%s})",
                "admin": "sum(penstock_admin_client_connection_count{%s})",
            },
        ),
    ],
}


def dashboard() -> dict[str, Any]:
    panels: list[dict[str, Any]] = []
    top = 0
    for row, members in ROWS.items():
        panels.append(
            {"id": len(panels) + 1, "type": "row", "title": row, "collapsed": False, "panels": [], **_at(0, top, 24, 1)}
        )
        width, height = (6, 4) if row == "Overview" else (12, 8)
        for number, panel in enumerate(members):
            line, place = divmod(number, 24 // width)
            panels.append(_panel(panel, len(panels) + 1, _at(place * width, top + 1 + line * height, width, height)))
        top += 1 + height * -(-len(members) * width // 24)
    return {
        "title": "penstock",
        "uid": "penstock",
        "tags": ["penstock", "kafka"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "",
        "templating": {"list": [_source_variable(), _instance_variable()]},
        "annotations": {"list": []},
        "panels": panels,
    }


def _panel(panel: Panel, number: int, place: dict[str, Any]) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.title == "State":
        options = {str(value): {"text": name, "index": value} for value, name in enumerate(STATES)}
        defaults["mappings"] = [{"type": "value", "options": options}]
    targets = [
        {"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": query.replace("%s", INSTANCE), "legendFormat": legend}
        for i, (legend, query) in enumerate(panel.queries.items())
    ]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.help,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {"reduceOptions": {"calcs": ["lastNotNull"]}} if panel.kind == "stat" else {"tooltip": {"mode": "multi"}},
        "targets": targets,
        **place,
    }


def _at(x: int, y: int, width: int, height: int) -> dict[str, Any]:
    return {"gridPos": {"x": x, "y": y, "w": width, "h": height}}


def _source_variable() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}


def _instance_variable() -> dict[str, Any]:
    query = "label_values(penstock_stream_client_state, instance)"
    return {
        "name": "instance",
        "type": "query",
        "label": "Instance",
        "datasource": SOURCE,
        "query": query,
        "definition": query,
        "includeAll": True,
        "multi": True,
        "refresh": 2,
        "current": {"text": "All", "value": "$__all"},
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(dashboard(), indent=2) + "\n")
