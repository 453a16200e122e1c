from __future__ import annotations

import json

from bench.profile import batches, hot_functions, spark_tasks


def test_should_show_what_the_steps_of_batches_take() -> None:
    lines = [
        json.dumps({"thread": 0, "records": 5000, "seconds": 1.0, "steps": {"fetch": 0.2, "process": 0.5}}),
        json.dumps({"thread": 1, "records": 10, "seconds": 0.1, "steps": {}}),
    ]
    text = batches(lines)
    assert "1 batches over 1,000 records: 1.00 s, 5,000 records, 1000.0 ms a batch" in text
    assert "| process | 0.50 | 500.0 | 50 |" in text
    assert "| rest | 0.30 | 300.0 | 30 |" in text
    assert "| rest | 0.10 | 100.0 | 100 |" in text


def test_should_read_tasks_from_an_event_log() -> None:
    events = [
        {"Event": "SparkListenerJobStart", "Job ID": 0},
        {"Event": "SparkListenerStageSubmitted", "Stage Info": {"Stage ID": 3, "Stage Name": "turn"}},
        {
            "Event": "SparkListenerTaskEnd",
            "Stage ID": 3,
            "Task Info": {"Launch Time": 100, "Finish Time": 150},
            "Task Metrics": {"Executor Run Time": 40, "Executor Deserialize Time": 4, "JVM GC Time": 1},
        },
    ]
    text = spark_tasks([json.dumps(event) for event in events])
    assert "1 jobs" in text
    assert "| turn | 1 | 50.0 | 40.0 | 4.0 | 6.0 | 1.0 |" in text


def test_should_sum_stacks_over_the_processes_of_a_kind() -> None:
    text = hot_functions(
        {
            "worker-1": "main (/x/site-packages/penstock/a.py:1);put (/x/src/penstock/b.py:2) 100",
            "worker-2": "main (/x/site-packages/penstock/a.py:9) 300",
        }
    )
    own, whole = text.split("with what it calls")
    assert "| `main (penstock/a.py)` | 3.0 | 75 |" in own
    assert "| `put (penstock/b.py)` | 1.0 | 25 |" in own
    assert "| `main (penstock/a.py)` | 4.0 | 100 |" in whole
