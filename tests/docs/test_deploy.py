"""What people copy to deploy fits together, as far as it can be checked without running it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock import StreamsConfig
from penstock.commands.common import read_settings
from penstock.kafka.clients import check_client_settings

DEPLOY = Path(__file__).parents[2] / "deploy"


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def checked(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=DEPLOY)
    assert done.returncode == 0, done.stdout + done.stderr


def script(path: str) -> Any:
    spec = importlib.util.spec_from_file_location(Path(path).stem, DEPLOY / path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_should_have_the_current_dashboard() -> None:
    maker = script("grafana/make_dashboard.py")
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


def test_should_have_rules_that_promtool_takes() -> None:
    promtool = tool("promtool")
    checked(promtool, "check", "rules", "prometheus/alerts.yml")
    checked(promtool, "check", "config", "--syntax-only", "prometheus/prometheus.yml")


def test_should_have_a_compose_file_that_fits_together() -> None:
    folder = DEPLOY / "compose"
    compose = yaml.safe_load((folder / "compose.yaml").read_text())
    services = compose["services"]
    assert {
        "kafka",
        "spark-master",
        "spark-worker-1",
        "spark-worker-2",
        "application",
        "prometheus",
        "grafana",
    } <= services.keys()
    for name, service in services.items():
        assert set(service.get("depends_on", ())) <= services.keys(), name
        secrets = {one if isinstance(one, str) else one["source"] for one in service.get("secrets", ())}
        assert secrets <= compose["secrets"].keys(), name
        assert set(service.get("networks", ())) <= compose["networks"].keys(), name
        if "build" in service:
            assert (folder / service["build"]["context"] / "Dockerfile").is_file()
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert (folder / source).exists() if source.startswith(".") else source in compose["volumes"], f"{name}: {volume}"
    assert services["spark-worker-1"]["volumes"] != services["spark-worker-2"]["volumes"]


def test_should_have_an_image_with_all_that_compose_starts() -> None:
    image = (DEPLOY / "docker" / "Dockerfile").read_text()
    compose = (DEPLOY / "compose" / "compose.yaml").read_text()
    assert "/opt/spark" in image
    assert "/opt/spark/bin/spark-class" in compose
    assert "useradd --create-home --uid 1000" in image
    assert "runAsUser: 1000" in (DEPLOY / "kubernetes" / "instances.yaml").read_text()
    assert "VOLUME /var/lib/penstock" in image


@pytest.mark.parametrize("where", ["compose", "systemd", "kubernetes"])
def test_should_have_settings_that_an_application_takes(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("a-token-of-some-length")
    (tmp_path / "penstock-token").write_text("a-token-of-some-length")
    monkeypatch.setenv("POD_NAME", "word-count-0")
    if where == "kubernetes":
        documents = yaml.safe_load_all((DEPLOY / where / "instances.yaml").read_text())
        text = next(document for document in documents if document["kind"] == "ConfigMap")["data"]["application.toml"]
    else:
        text = (DEPLOY / where / ("shop.toml" if where == "systemd" else "application.toml")).read_text()
    file = tmp_path / "application.toml"
    file.write_text(re.sub(r"\$\{secrets:[^:]+:", f"${{secrets:{tmp_path}:", text))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = StreamsConfig(read_settings(file, None))
    check_client_settings(config)
    assert config["application.server.token"] == "a-token-of-some-length"
    assert config["metrics.port"] == 9404


def test_should_have_kubernetes_objects_that_name_each_other() -> None:
    objects = {found["kind"]: found for found in yaml.safe_load_all((DEPLOY / "kubernetes" / "instances.yaml").read_text())}
    instances = objects["StatefulSet"]["spec"]
    pod = instances["template"]["spec"]
    (container,) = pod["containers"]
    assert instances["serviceName"] == objects["Service"]["metadata"]["name"]
    labels = instances["template"]["metadata"]["labels"]
    assert instances["selector"]["matchLabels"] == labels == objects["Service"]["spec"]["selector"]
    claimed = {claim["metadata"]["name"] for claim in instances["volumeClaimTemplates"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == claimed | {volume["name"] for volume in pod["volumes"]}
    assert {port["port"] for port in objects["Service"]["spec"]["ports"]} == {p["containerPort"] for p in container["ports"]}
    named = next(volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume)
    assert named == objects["ConfigMap"]["metadata"]["name"]


def test_should_have_a_unit_that_systemd_takes(tmp_path: Path) -> None:
    analyze = tool("systemd-analyze")
    unit = (DEPLOY / "systemd" / "penstock@.service").read_text()
    file = tmp_path / "penstock@.service"
    file.write_text(unit.replace("/opt/penstock/bin/penstock", sys.executable))  # it must be there to be taken
    instance = tmp_path / "penstock@shop.service"
    instance.symlink_to(file)
    done = subprocess.run([analyze, "verify", "--man=no", str(instance)], capture_output=True, text=True, check=False)
    told = [line for line in done.stderr.splitlines() if "penstock@" in line]
    assert (done.returncode, told) == (0, []), done.stderr


def test_should_tell_of_every_folder() -> None:
    told = (DEPLOY / "README.md").read_text()
    assert not [folder.name for folder in DEPLOY.iterdir() if folder.is_dir() and f"[{folder.name}](" not in told]


DOCKERFILES = sorted(DEPLOY.rglob("Dockerfile"))
CONFINED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def compose_services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())["services"]
    return found


def pods() -> dict[str, Any]:
    folder = DEPLOY / "kubernetes"
    found = {name: yaml.safe_load((folder / name).read_text())["spec"] for name in ("driver-pod.yaml", "executor-pod.yaml")}
    (instances,) = (o for o in yaml.safe_load_all((folder / "instances.yaml").read_text()) if o["kind"] == "StatefulSet")
    return {**found, "instances.yaml": instances["spec"]["template"]["spec"]}


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.parent.name)
def test_should_build_on_images_that_are_named_by_their_digest(file: Path) -> None:
    """A build argument without a default has to be given: a tag alone may be another image tomorrow."""
    text = file.read_text()
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert bases
    for base in bases:
        named = re.fullmatch(r"[^@]+@(?:sha256:[0-9a-f]{64}|\$\{(\w+_DIGEST)\})", base)
        assert named, base
        assert named[1] is None or re.search(rf"^ARG {named[1]}$", text, re.MULTILINE), base


def test_should_start_images_that_are_named_by_their_digest_or_built_here() -> None:
    looked_up = (DEPLOY / "compose" / "digests.sh").read_text()
    for name, service in compose_services().items():
        if "build" in service:
            assert service["pull_policy"] == "build", name
            continue
        image = re.fullmatch(r"([^@]+)@\$\{(\w+_DIGEST):\?[^}]+\}", service["image"])
        assert image, f"{name}: {service['image']}"
        assert f'{image[2]}=$(digest {image[1]})"' in looked_up, name
    for name, pod in pods().items():
        for container in pod["containers"]:
            assert "@sha256:" in container.get("image", "@sha256:"), name


def test_should_not_submit_an_image_by_a_tag(tmp_path: Path) -> None:
    submit = tmp_path / "spark-submit"
    submit.write_text('#!/bin/sh\necho "$@"\n')
    submit.chmod(0o755)
    command = ["bash", str(DEPLOY / "kubernetes" / "submit.sh"), "https://api:6443"]

    def ended(*image: str) -> Any:
        path = f"{tmp_path}:/usr/bin:/bin"
        return subprocess.run([*command, *image], env={"PATH": path}, capture_output=True, text=True, check=False)

    assert [ended().returncode, ended("shop:1").returncode] == [2, 2]
    taken = ended("shop@sha256:00")
    assert taken.returncode == 0, taken.stderr
    assert "--conf spark.authenticate=true --conf spark.network.crypto.enabled=true" in taken.stdout


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.parent.name)
def test_should_install_only_what_has_a_hash_and_end_without_root(file: Path) -> None:
    text = file.read_text()
    installed = re.findall(r"pip3? install (.*?)(?: \\)?$", text, re.MULTILINE)
    assert installed
    assert all("--require-hashes" in line and " -r /opt/locks/" in line for line in installed), installed
    assert "ARG PENSTOCK_SHA256\n" in text
    assert re.findall(r"^USER (\S+)", text, re.MULTILINE)[-1].isdigit()


def test_should_have_the_current_locks() -> None:
    maker = script("docker/make_locks.py")
    root = {**maker.entries(maker.ROOT / "requirements-dev.lock")}
    for file, names in (
        ("build.lock", {"setuptools", "wheel"}),
        ("requirements.lock", {"pyspark", "confluent-kafka", "fastavro"}),
    ):
        found = maker.entries(DEPLOY / "docker" / file)
        assert names <= found.keys()
        assert {name: root.get(name) for name in found} == found, "run: deploy/docker/make_locks.py"
        assert all("--hash=sha256:" in entry for entries in found.values() for entry in entries)
    needed = {maker.normalized(one) for one in importlib.metadata.requires("penstock-streams") or () if "extra ==" not in one}
    assert needed <= maker.entries(DEPLOY / "docker" / "requirements.lock").keys()


def test_should_run_containers_without_root_and_without_capabilities() -> None:
    for name, service in compose_services().items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert int(service["user"]) > 0, name
        assert service.get("read_only") or name == "kafka", name
    for name, pod in pods().items():
        assert pod["securityContext"]["runAsNonRoot"], name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for container in pod["containers"]:
            assert container["securityContext"] == CONFINED, name
            mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
            assert "/tmp" in mounted, name
            assert {mount["name"] for mount in container["volumeMounts"]} <= {
                "state",
                *(volume["name"] for volume in pod["volumes"]),
            }, name


def test_should_authenticate_spark_in_compose_without_a_secret_on_a_command_line() -> None:
    compose = (DEPLOY / "compose" / "compose.yaml").read_text()
    assert "spark.authenticate true" in compose
    assert "spark.network.crypto.enabled true" in compose
    assert "spark.authenticate.secret" not in (DEPLOY / "compose" / "application.toml").read_text()
    for name, service in compose_services().items():
        if "build" in service:
            assert service["environment"]["SPARK_CONF_DIR"] == "/etc/spark", name
            assert {"source": "spark-defaults", "target": "/etc/spark/spark-defaults.conf"} in service["secrets"], name
