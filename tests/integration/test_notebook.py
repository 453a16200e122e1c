"""An application in a Jupyter notebook, on a real kernel."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.kafka import Kafka, unique
from tests.harness.waiting import LIMIT
from tests.integration.helpers import keyed, topics

pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
nbformat = pytest.importorskip("nbformat")

_SETUP = """
import threading
import time
from penstock import Consumed, Grouped, KafkaStreams, KeyQuery, Materialized, Serdes, StateQueryRequest, StreamsBuilder

def wait_until(is_so):
    deadline = time.monotonic() + {limit}
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)
"""

# The cell lasts until its display has changed: what is shown later is not part of its output for nbclient.
_LIVE = """
from confluent_kafka import Producer

table = streams.live("counts", refresh=0.05, limit=10)
producer = Producer({{"bootstrap.servers": {brokers!r}}})
producer.produce({source!r}, b"x", b"c")
producer.flush()
wait_until(lambda: counts.get("c") == 1)
before = table.updates
wait_until(lambda: table.updates > before + 1)
"""

_BUILD = """
builder = StreamsBuilder()
text = Serdes.string()
lines = builder.stream({source!r}, Consumed(text, text))
lines.group_by_key(Grouped("keys", text, text)).count(Materialized("counts", text, Serdes.long()))
topology = builder.build()
streams = KafkaStreams(topology, {config!r})
streams.start()
streams.wait_until_running({limit})
counts = streams.store("counts")
wait_until(lambda: counts.get("a") == 2)
wait_until(lambda: not any(thread.name.endswith("-notebook") for thread in threading.enumerate()))  # the display has its end
"""


def test_should_be_at_home_in_a_notebook(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = topics(kafka, "in")
    kafka.feed(source, keyed(["a", "b", "a"]))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    config = {
        "application.id": unique("notebook"),
        "bootstrap.servers": kafka.bootstrap_servers,
        "state.dir": str(tmp_path / "state"),
        "application.server": "localhost:0",
        "num.stream.threads": 1,
        "commit.interval.ms": 20,
        "spark.ui.enabled": "false",
    }
    build = _BUILD.format(source=source, config=config, limit=LIMIT)
    cells = [
        _SETUP.format(limit=LIMIT),
        build,
        "topology",
        "streams",
        "counts",
        'streams.query(StateQueryRequest.in_store("counts").with_query(KeyQuery("a")))',
        _LIVE.format(brokers=kafka.bootstrap_servers, source=source),
        "first = streams\n" + build,
        'print(first.state.name, streams.state.name, first is streams, counts["b"])',
        "streams.close()\nstreams",
    ]
    outputs = executed(cells, tmp_path)

    assert "console" in html(outputs[1]), "the cell that starts it shows how it starts, and where its console is"
    assert "RUNNING" in html(outputs[1])
    assert "<svg" in outputs[2][0]["data"]["image/svg+xml"]
    assert f"<b>{config['application.id']}</b> RUNNING" in html(outputs[3])
    assert "StreamThread-1" in html(outputs[3])
    assert '<td style="text-align:left">a</td><td style="text-align:right">2</td>' in html(outputs[4])
    assert '<td style="text-align:right">2</td>' in html(outputs[5])
    assert '<td style="text-align:left">c</td><td style="text-align:right">1</td>' in html(outputs[6])
    assert text(outputs[8]) == "NOT_RUNNING RUNNING False 1\n", "the same cell again takes the place of what it had started"
    assert "NOT_RUNNING" in html(outputs[9])


BLOCK = re.compile(r"^```(sh|python|py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""What a reader runs; `py` marks cells that need the ones before them."""


def test_should_run_the_page_on_notebooks_word_for_word(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "TMPDIR"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    topic, brokers = unique("clicks"), kafka.bootstrap_servers
    page = (Path(__file__).parents[2] / "docs" / "notebooks.md").read_text().replace("localhost:9092", brokers)
    cells = []
    for language, code in BLOCK.findall(page):
        code = code.replace("clicks", topic)
        if language == "sh":
            command = re.sub(
                r"penstock (topics create|produce)", rf"{sys.executable} -m penstock.cli \1 -c bootstrap.servers={brokers}", code
            )
            code = f"import subprocess\nsubprocess.run({command!r}, shell=True, check=True)"
        cells.append(code)
    counted = "import time\nwhile counts.get('ada') != 2:\n    time.sleep(0.05)\ncounts"  # the page's reader looks again
    outputs = executed([*cells, counted, "streams.close()"], tmp_path)
    assert '<td style="text-align:left">ada</td><td style="text-align:right">2</td>' in html(outputs[-2])
    assert '<td style="text-align:left">bob</td><td style="text-align:right">1</td>' in html(outputs[-2])


_EXECUTE = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
try:
    nbclient.NotebookClient(notebook, timeout=int(sys.argv[2]), kernel_name="python3").execute()
finally:
    nbformat.write(notebook, sys.argv[1])
"""


def executed(cells: list[str], folder: Path) -> list[list[Any]]:
    """The outputs of each cell, run one after the other in a kernel of this Python."""
    path = folder / "test.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells]), path)
    command = [sys.executable, "-c", _EXECUTE, str(path), str(int(4 * LIMIT))]
    run = subprocess.run(command, capture_output=True, text=True, timeout=20 * LIMIT)
    assert run.returncode == 0, run.stderr[-4000:]
    return [cell.outputs for cell in nbformat.read(path, as_version=4).cells]


def html(outputs: list[Any]) -> str:
    """What a cell shows."""
    return "".join(output["data"].get("text/html", "") for output in outputs if "data" in output)


def text(outputs: list[Any]) -> str:
    """What a cell prints."""
    return "".join(output["text"] for output in outputs if output["output_type"] == "stream" and output["name"] == "stdout")
