from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.harness.waiting import LIMIT


def test_should_say_which_java_does_not_start(tmp_path: Path) -> None:
    begin = "from penstock.spark.driver.session import make_context; make_context('words', {})"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    ended = subprocess.run(
        [sys.executable, "-c", begin],
        env={**environment, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert ended.returncode == 1
    assert f"StreamsError: Spark's JVM did not start ({tmp_path}/bin/java)" in ended.stderr
    assert "JAVA_HOME" in ended.stderr.splitlines()[-1]
