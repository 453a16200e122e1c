"""Whether what is recorded is flat."""

from __future__ import annotations

import os
import random
from pathlib import Path

from tests.harness.processes import Processes, folder_megabytes, megabytes, open_files, threads
from tests.soak.samples import growth, take


def series(name: str, values: list[float]) -> list[dict[str, float]]:
    return [{name: value} for value in values]


def test_should_find_flat_what_goes_up_and_down_and_what_fills_up_at_first() -> None:
    chance = random.Random(1)
    assert growth(series("driver MB", [300 + chance.uniform(-50, 50) for _ in range(60)])) == []
    assert growth(series("driver MB", [min(300.0, 20.0 * minute) for minute in range(60)])) == []
    assert growth(series("driver MB", [0.0 if minute % 7 == 0 else 300.0 for minute in range(60)])) == []


def test_should_find_what_grows_steadily() -> None:
    assert len(growth(series("driver MB", [300 + 10.0 * minute for minute in range(60)]))) == 1
    assert len(growth(series("threads of JVM", [100 + 3.0 * minute for minute in range(60)]))) == 1
    assert len(growth(series("local folder MB", [5.0 * minute for minute in range(60)]))) == 1


def test_should_not_judge_few_samples() -> None:
    assert growth(series("driver MB", [10.0 * 2**minute for minute in range(14)])) == []


def test_should_measure_this_process(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "file").write_bytes(b"x" * 2**21)
    sample = take([os.getpid()], [tmp_path, tmp_path / "nowhere"])
    assert sample["driver MB"] == 0 or sample["driver MB"] > 5
    assert sample["open files of driver"] >= 3
    assert sample["threads of driver"] >= 1
    assert 1.9 < sample["state folder MB"] < 2.5
    assert sample["workers"] == 0


def test_should_find_nothing_of_a_process_that_is_gone() -> None:
    gone = 2**22 + 1
    assert (megabytes(gone), open_files(gone), threads(gone)) == (0.0, 0, 0)
    assert folder_megabytes(Path("/nowhere")) == 0.0


def test_should_tell_workers_from_daemons_and_jvms_from_scripts() -> None:
    daemon = [b"python", b"-m", b"pyspark.daemon", b""]
    found = Processes(
        {2: 1, 3: 2, 4: 3, 5: 4, 6: 5, 7: 5, 9: 8},
        {
            2: [b"python", b"app"],
            3: [b"bash", b"spark-submit", b"pyspark.daemon"],
            4: [b"java", b"org.apache.spark.deploy.SparkSubmit"],
            5: daemon,
            6: daemon,
            7: daemon,
            9: daemon,
        },
    )
    assert found.jvms([2]) == [4]
    assert found.workers([2]) == [6, 7]
    assert found.workers([8]) == []
