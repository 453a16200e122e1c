"""Applications as people write them: the script of the README, which ends with `start()`, and one that is stopped meanwhile."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness.command_line import ROOT
from tests.harness.kafka import Kafka, unique, wait_until
from tests.harness.waiting import LIMIT
from tests.integration.helpers import texts, topics


def _readme(kafka: Kafka, source: str, sink: str, name: str, folder: Path) -> str:
    """The first two pieces of Python in the README, with names of its own."""
    pieces = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[:2]
    script: str = "".join(pieces)
    for said, meant in {
        '"lines"': repr(source),
        '"word-counts"': repr(sink),
        '"wordcount"': repr(name),
        "localhost:9092": kafka.bootstrap_servers,
        "config = {": f"config = {{'state.dir': {str(folder)!r}, ",
    }.items():
        assert said in script
        script = script.replace(said, meant)
    return script


@contextmanager
def _run(script: str, folder: Path, errors: bool = False) -> Iterator[subprocess.Popen[str]]:
    file = folder / "script.py"
    file.write_text(script)
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, str(file)], cwd=folder, stdout=pipe, stderr=pipe if errors else None, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_should_run_the_script_of_the_readme_until_it_is_told_to_stop(kafka: Kafka, tmp_path: Path) -> None:
    source, sink = topics(kafka, "lines", "word-counts")
    name = unique("readme")
    kafka.feed(source, texts(("", "All streams lead to Kafka"), ("", "Hello Kafka Streams")))
    with _run(_readme(kafka, source, sink, name, tmp_path / "state"), tmp_path) as process:
        wait_until(lambda: len({message.key for message in kafka.read(sink)}) == 6, "counted words")
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=LIMIT)
    assert (process.returncode, output) == (0, "2\n")
    assert kafka.has_consumed(name, source)
    assert not kafka.members(name)  # it has left


def test_should_be_closed_by_a_signal_that_comes_while_it_starts(kafka: Kafka, tmp_path: Path) -> None:
    source, sink = topics(kafka, "lines", "word-counts")
    script = _readme(kafka, source, sink, unique("readme"), tmp_path / "state")
    constructed = "KafkaStreams(builder.build(), config)"
    closes = f"""
import os, signal
streams = {constructed}
signal.signal(signal.SIGTERM, lambda *_: print(streams.close(), flush=True))
streams.set_state_listener(lambda new, old: new.name == "REBALANCING" and os.kill(os.getpid(), signal.SIGTERM))
"""
    script = script.replace(f"{constructed}.start()", f"{closes}streams.start()\nprint(streams.state.name, streams.failure)")
    with _run(script, tmp_path) as process:
        output, _ = process.communicate(timeout=LIMIT)
    *_, said, ended = output.splitlines()
    assert process.returncode == 0
    assert ended == "NOT_RUNNING None"
    assert said in ("True", "False")


def test_should_end_with_1_and_name_the_failure_whatever_handlers_are_attached(kafka: Kafka, tmp_path: Path) -> None:
    source, sink = topics(kafka, "lines", "word-counts")
    script = _readme(kafka, source, sink, unique("readme"), tmp_path / "state")
    script = script.replace("line.lower()", "(line.lower() if line != 'boom' else line.no_such_method())")
    script = script.replace("config = {", "config = {'application.server': '127.0.0.1:0', ")
    script = f"import logging\nlogging.getLogger('penstock').addHandler(logging.NullHandler())\n{script}"
    kafka.feed(source, texts(("", "boom")))
    with _run(script, tmp_path, errors=True) as process:
        _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 1
    assert re.search(r"^penstock: the application readme-.* failed: ProcessingError: .*no_such_method", errors, re.MULTILINE), (
        errors
    )
