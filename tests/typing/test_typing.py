"""The DSL is generic: a type checker accepts a right application and finds a wrong lambda."""

from __future__ import annotations

from pathlib import Path

import pytest

api = pytest.importorskip("mypy.api", reason="mypy is needed to check types")

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

PREAMBLE = """
from penstock.client.kafka_streams import KafkaStreams
from penstock.dsl.builder import StreamsBuilder
from penstock.dsl.options import Consumed, Materialized, Produced
from penstock.processor import Processor
from penstock.record import Record
from penstock.serdes.serde import Serdes
from penstock.testing.topology_test_driver import TopologyTestDriver
from penstock.windows import JoinWindows

text, long = Serdes.string(), Serdes.long()
builder = StreamsBuilder()
lines = builder.stream("lines", Consumed(text, text))
numbers = builder.stream("numbers", Consumed(long, text))
users = builder.table("users", Consumed(text, long))
regions = builder.table("regions", Consumed(long, text))
driver = TopologyTestDriver(builder.build())


class Lengths(Processor[str, str, str, int]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_value(len(record.value)))


"""


def check(file: Path, cache: Path) -> tuple[str, int]:
    output, errors, status = api.run(
        ["--strict", "--no-error-summary", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(cache), str(file)]
    )
    assert not errors, errors
    return output, status


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy")


def test_should_accept_a_well_typed_application(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    output, status = check(HERE / "good_app.py", cache)
    assert status == 0, output


def test_should_find_the_error_in_every_wrong_application(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    cases = [line.rsplit(" | ", 1) for line in (HERE / "wrong_apps.txt").read_text().splitlines() if not line.startswith("#")]
    file = tmp_path / "wrong_app.py"
    file.write_text(PREAMBLE + "\n".join(code for code, _ in cases) + "\n")
    output, status = check(file, cache)
    assert status == 1, output
    first = PREAMBLE.count("\n") + 1
    for number, (code, error) in enumerate(cases):
        found = [line for line in output.splitlines() if f"wrong_app.py:{first + number}: error:" in line]
        assert any(f"[{error}]" in line for line in found), f"{code}: expected [{error}], mypy says {found}"
