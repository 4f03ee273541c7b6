"""What a kustomization comes to: by kubectl where it is installed, else by reading what our own files use of it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

Resource = dict[str, Any]


def rendered(directory: Path) -> list[Resource]:
    """By kubectl; by `resolved` where it is not installed."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        return resolved(directory)
    done = subprocess.run([kubectl, "kustomize", str(directory)], capture_output=True, text=True, check=True)
    return list(yaml.safe_load_all(done.stdout))


def resolved(directory: Path) -> list[Resource]:
    """Resources of the directory and of those that it names, with config maps put together. Neither hashes of names nor
    labels nor namespaces: nothing that is tested goes by them."""
    kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text())
    found: list[Resource] = []
    for name in (*kustomization.get("resources", ()), *kustomization.get("components", ())):
        path = directory / name
        found += resolved(path) if path.is_dir() else list(yaml.safe_load_all(path.read_text()))
    for made in kustomization.get("configMapGenerator", ()):
        data = dict(literal.split("=", 1) for literal in made.get("literals", ()))
        data |= {name: (directory / name).read_text() for name in made.get("files", ())}
        if made.get("behavior") == "merge":
            (known,) = (
                each for each in found if each["kind"] == "ConfigMap" and each["metadata"]["name"] == made["name"]
            )
            known["data"] |= data
        else:
            found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": made["name"]}, "data": data})
    return found
