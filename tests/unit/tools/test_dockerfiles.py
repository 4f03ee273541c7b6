"""The Dockerfiles as hadolint sees them, and what docker/test-images, which builds and runs them, gives to a build."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCKERFILES = sorted((ROOT / "docker").glob("*.Dockerfile"))


def lint(text: str) -> str:
    """hadolint's findings, one a line."""
    tool = Path(sysconfig.get_path("scripts")) / "hadolint"
    return subprocess.run([str(tool), "-"], input=text, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
def test_hadolint_finds_nothing(path: Path) -> None:
    assert lint(path.read_text()) == ""


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
def test_hadolint_would_find_an_unpinned_package(path: Path) -> None:
    assert "DL3008" in lint(path.read_text().replace("# hadolint ignore=DL3008\n", ""))


def test_there_is_one_for_each_process() -> None:
    assert [path.stem for path in DOCKERFILES] == ["service", "worker"]


def test_a_build_is_told_where_packages_come_from_and_nothing_else_of_pip(tmp_path: Path) -> None:
    script = (ROOT / "docker" / "test-images").read_text()
    function = script[script.index("pip_configuration() {") : script.index("\nbuild() {")]
    configuration = tmp_path / "pip.conf"
    configuration.write_text(
        "[global]\ntrusted-host = mirror\nconstraint = /here/only.txt\ncert = /here/ca.pem\ntimeout = 60\n"
        "find-links =\n    https://one/\n    https://two/\n[install]\nrequire-hashes = true\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    environment |= {"PIP_CONFIG_FILE": str(configuration), "HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path)}
    command = ["bash", "-c", f"{function}\npip_configuration"]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    told = ConfigParser()
    told.read_string(said)
    assert told.sections() == ["global"]
    assert told["global"]["trusted-host"] == "mirror"
    assert told["global"]["find-links"].split() == ["https://one/", "https://two/"]
    allowed = {"index-url", "extra-index-url", "no-index", "find-links", "trusted-host", "proxy", "timeout", "retries"}
    assert {"trusted-host", "timeout", "find-links"} <= set(told["global"]) <= allowed
