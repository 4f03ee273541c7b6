"""docker/kubernetes: what it renders to is valid, confined, and agrees with the settings. No cluster is needed."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from jobs.queue import bench_queue
from jobs.setting_groups.cells import MAX_CELL
from jobs.settings import Settings
from service.ledger_metrics import LedgerCollector
from tests.support.kustomize import rendered, resolved

KUBERNETES = Path(__file__).parents[3] / "docker" / "kubernetes"
VERSION = "1.32.0"
RENDERED = ("cell", "example")


@cache
def resources(name: str) -> list[dict[str, Any]]:
    return rendered(KUBERNETES / name)


def pods(name: str) -> dict[str, dict[str, Any]]:
    """The pods' specs, by the name of what makes them."""
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in resources(name)
        if each["kind"] in ("Deployment", "StatefulSet")
    }


def settings_of(name: str) -> dict[str, str]:
    (found,) = (
        each["data"]
        for each in resources(name)
        if each["kind"] == "ConfigMap" and each["metadata"]["name"].startswith("settings")
    )
    return dict(found)


def test_every_resource_is_valid() -> None:
    kinds = set()
    for each in resources("example"):  # all that there is
        kinds.add(each["kind"])
        if each["apiVersion"].startswith("keda.sh/"):
            continue  # no schema of Kubernetes': see below
        kubernetes_validate.validate(each, VERSION, strict=True)
    assert kinds >= {"Deployment", "StatefulSet", "Service", "PodDisruptionBudget", "NetworkPolicy", "ScaledObject"}


@pytest.mark.parametrize("name", RENDERED)
def test_without_kubectl_the_same_is_tested(name: str) -> None:
    def known(each: dict[str, Any]) -> tuple[str, str]:
        return each["kind"], re.sub(r"-[0-9a-z]{10}$", "", each["metadata"]["name"])

    assert sorted(map(known, resolved(KUBERNETES / name))) == sorted(map(known, resources(name)))


@pytest.mark.parametrize("name", RENDERED)
def test_every_pod_is_confined_and_bounded(name: str) -> None:
    for owner, pod in pods(name).items():
        assert pod["automountServiceAccountToken"] is False, owner
        assert pod["enableServiceLinks"] is False, f"{owner}: MATMUL_PORT would be that of a Service named `matmul`"
        context = pod["securityContext"]
        assert context["runAsNonRoot"] and context["seccompProfile"] == {"type": "RuntimeDefault"}, owner
        (container,) = pod["containers"]
        confined = container["securityContext"]
        assert confined["readOnlyRootFilesystem"] and confined["capabilities"] == {"drop": ["ALL"]}, owner
        assert confined["allowPrivilegeEscalation"] is False
        assert container["resources"]["limits"]["memory"] and container["resources"]["requests"]["cpu"], owner
        assert "readinessProbe" in container, owner
        mounted = {each["name"] for each in container["volumeMounts"]}
        assert mounted >= {each["name"] for each in pod["volumes"]}, owner
        assert not [each for each in pod["volumes"] if "hostPath" in each], owner


def test_the_printed_commands_make_every_secret_that_pods_mount(tmp_path: Path) -> None:
    docker = KUBERNETES.parent
    subprocess.run([docker / "make-secrets", tmp_path], check=True)
    made = {each.name for each in tmp_path.iterdir()}
    made |= set(re.findall(r"> docker/secrets/(\w+)", (docker / "README.md").read_text()))
    volumes = [each["secret"] for pod in pods("example").values() for each in pod["volumes"] if "secret" in each]
    assert {item["key"] for each in volumes for item in each["items"]} <= made


@pytest.mark.parametrize("name", RENDERED)
def test_settings_are_the_services(name: str) -> None:
    own = {key.removeprefix("MATMUL_").lower(): value for key, value in settings_of(name).items()}
    assert own.keys() <= Settings.model_fields.keys()
    settings = Settings.model_validate(own)
    assert settings.queue_without_workers == "always", "else nothing waits for the first worker"
    for owner, pod in pods(name).items():
        (container,) = pod["containers"]
        named = {each["name"].removeprefix("MATMUL_").lower() for each in container.get("env", [])}
        assert named <= Settings.model_fields.keys()
        if owner.startswith("worker"):
            assert pod["terminationGracePeriodSeconds"] > settings.job_timeout_s, "a drained worker ends its job"
    assert (settings.cell or 0) <= MAX_CELL


def test_a_gang_is_one_pod_with_the_gpus_it_names() -> None:
    (container,) = pods("example")["worker-gang"]["containers"]
    (device,) = (each["value"] for each in container["env"] if each["name"] == "MATMUL_DEVICE")
    assert len(device.removeprefix("gpus:").split(",")) == int(container["resources"]["limits"]["nvidia.com/gpu"])


def test_valkey_is_configured_as_in_compose() -> None:
    assert (KUBERNETES / "cell" / "valkey.conf").read_text() == (KUBERNETES.parent / "valkey.conf").read_text()


def scaled_object() -> dict[str, Any]:
    return dict(yaml.safe_load((KUBERNETES / "cell" / "scaling.yaml").read_text())["spec"])


def test_the_scaler_asks_for_metrics_that_there_are() -> None:
    """KEDA's schema is not at hand, so this looks at the fields that it must have."""
    spec = scaled_object()
    assert spec["minReplicaCount"] == 0 < spec["maxReplicaCount"] <= 256
    assert spec["scaleTargetRef"]["name"] == "worker-gpu"
    source = Path(str(LedgerCollector.collect.__code__.co_filename)).read_text()
    for trigger in spec["triggers"]:
        assert trigger["type"] == "prometheus" and trigger["metricType"] in ("AverageValue", "Value")
        assert {"serverAddress", "query", "threshold", "activationThreshold"} <= trigger["metadata"].keys()
        names = re.findall(r"matmul_\w+", trigger["metadata"]["query"])
        assert names and all(f'"{name}"' in source for name in names)
    (waiting,) = re.findall(r'waiting_jobs\{queue=~"([^"]*)"', spec["triggers"][0]["metadata"]["query"])
    for queue, is_ours in {"gpu": True, bench_queue("NVIDIA H100 80GB HBM3"): True, "cpu": False}.items():
        assert bool(re.fullmatch(waiting, queue)) == is_ours, "a benchmark whose worker was lost waits for another"
