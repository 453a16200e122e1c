"""What people copy to deploy fits together, as far as it can be checked without running it."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def checked(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=DEPLOY)
    assert done.returncode == 0, done.stdout + done.stderr


def test_should_have_the_current_dashboard() -> None:
    spec = importlib.util.spec_from_file_location("make_dashboard", DEPLOY / "grafana" / "make_dashboard.py")
    assert spec is not None
    assert spec.loader is not None
    maker: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    assert json.loads((DEPLOY / "grafana" / "penstock.json").read_text()) == maker.dashboard(), "run: make_dashboard.py"


def test_should_place_no_panel_on_another() -> None:
    panels = json.loads((DEPLOY / "grafana" / "penstock.json").read_text())["panels"]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert all(x < 24 for x, _ in cells)
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_should_have_alerts_that_say_what_to_do() -> None:
    (group,) = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "description"}


def test_should_have_rules_that_promtool_takes(tmp_path: Path) -> None:
    promtool = tool("promtool")
    checked(promtool, "check", "rules", "prometheus/alerts.yml")
    shutil.copytree(DEPLOY / "prometheus", tmp_path / "prometheus")
    (tmp_path / "prometheus" / "token").write_text("x")
    checked(promtool, "check", "config", str(tmp_path / "prometheus" / "prometheus.yml"))
