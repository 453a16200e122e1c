"""The jars of the development broker come from Maven Central, whatever lies in the user's own Maven folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.waiting import LIMIT

pytestmark = pytest.mark.integration

POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>javax.inject</groupId><artifactId>javax.inject</artifactId><version>1</version></project>"""


def resolve(coordinates: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the resolver as somebody whose home is `folder`."""
    return subprocess.run(
        [sys.executable, "-m", "penstock.spark.driver.resolver", coordinates, str(folder / "ivy")],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
        env={**os.environ, "JAVA_TOOL_OPTIONS": f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Duser.home={folder}"},
    )


def test_should_not_stumble_over_a_pom_that_maven_has_left_without_its_jar(tmp_path: Path) -> None:
    left = tmp_path / ".m2/repository/javax/inject/javax.inject/1"
    left.mkdir(parents=True)
    (left / "javax.inject-1.pom").write_text(POM)
    found = resolve("javax.inject:javax.inject:1", tmp_path)
    assert [Path(jar).name for jar in found.stdout.split()] == ["javax.inject_javax.inject-1.jar"], found.stderr


def test_should_say_which_jar_could_not_be_found(tmp_path: Path) -> None:
    found = resolve("javax.inject:javax.inject:no-such-version", tmp_path)
    assert found.returncode == 1
    assert found.stdout == ""
    reason = found.stderr.strip().splitlines()[-1]  # what the user is told
    assert "javax.inject#javax.inject;no-such-version: not found" in reason
