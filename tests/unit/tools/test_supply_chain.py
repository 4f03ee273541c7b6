"""Tracked files contain no secrets, shipped packages are listed completely, and a missing network is not reported as a
vulnerability.
"""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from cyclonedx.output.json import JsonV1Dot6

from service.keys import make_key
from tests.unit.tools.test_house import ROOT, locked
from tools.audit import judge
from tools.sbom import bom_of

SECRETS = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    r"\bmm_[0-9a-f]{12}_[\w-]{43}\b",
    r"\b(AKIA|ASIA)[0-9A-Z]{16}\b",
    r"\bgh[pousr]_[0-9A-Za-z]{36}\b",
    r"\bgithub_pat_\w{60,}",
    r"\bglpat-[\w-]{20,}",
    r"\bxox[abprs]-[0-9A-Za-z-]{20,}",
    r"\bAIza[\w-]{35}\b",
    r"\bhf_[0-9A-Za-z]{34}\b",
    r"\bsk-[0-9A-Za-z_-]{32,}",
    r"\bpypi-AgEI[\w-]{40,}",
    r"\beyJ[\w-]{15,}\.eyJ[\w-]{15,}\.[\w-]{20,}",
    r"://[^\s:/@'\"{}$<]*:(?!secret@|\$|<)[^\s/@'\"{}$<]{8,}@",
    r"(?i)\b(password|passwd|secret|token|api_?key)\b[\"']?\s*[:=]\s*[\"'](?=[^\"']*[0-9])[\w+/=-]{24,}[\"']",
)
MAX_BYTES = 60_000  # what is larger is recorded data
DATA = {".jsonl", ".svg", ".png", ".cu", ".cuh", ".hpp", ".cpp"}
PLANTED = (
    "-----BEGIN RSA " + "PRIVATE KEY-----",
    make_key("planted", b"a pepper").key,
    "AKIA" + "ABCDEFGHIJKLMNOP",
    "ghp_" + "a1" * 18,
    "redis://:" + "hunter2hunter2" + "@example.org:6379/0",
    'password = "' + "0123456789abcdef" * 2 + '"',
)


def secrets_in(text: str) -> list[str]:
    return [found[0] for pattern in SECRETS for found in re.finditer(pattern, text)]


@pytest.mark.parametrize("text", PLANTED, ids=("private key", "our key", "AWS", "GitHub", "URL", "password"))
def test_a_planted_secret_is_found(text: str) -> None:
    assert secrets_in(f"x {text}\n")


def test_no_tracked_file_holds_a_secret() -> None:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if names.returncode:
        pytest.skip("not a checkout")
    paths = [ROOT / name for name in names.stdout.split("\0") if name and not name.startswith("constraints/")]
    texts = [path for path in paths if path.is_file() and path.suffix not in DATA and path.stat().st_size < MAX_BYTES]
    found = {str(path): hits for path in texts if (hits := secrets_in(path.read_text(errors="replace")))}
    assert not found


@pytest.mark.parametrize("name", ["run", "cuda13"])
def test_the_bill_of_materials_is_whole(name: str) -> None:
    text = JsonV1Dot6(bom_of(name)).output_as_string()
    listed: dict[str, set[str]] = {}
    document = json.loads(text)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    for component in document["components"]:
        assert component["purl"].startswith("pkg:pypi/") and component["hashes"]
        listed.setdefault(component["name"], set()).add(component["version"])
    assert listed == locked(f"{name}.txt")


CLEAN = '{"dependencies": [{"name": "numpy", "version": "2.4.6", "vulns": []}], "fixes": []}'
FOUND = CLEAN.replace("[]}]", '[{"id": "PYSEC-1", "fix_versions": ["2.4.7"], "aliases": []}]}]')


@pytest.mark.parametrize(
    ("report", "required", "status", "words"),
    [
        (CLEAN, False, 0, "no known vulnerability"),
        (FOUND, False, 1, "numpy 2.4.6: PYSEC-1, fixed in 2.4.7"),
        ("", False, 0, "not audited, for the advisories could not be read: no route"),
        ("", True, 1, "not audited"),
        ("[]", False, 0, "not audited"),
    ],
)
def test_an_audit_fails_for_a_finding_alone(report: str, required: bool, status: int, words: str) -> None:
    got, lines = judge(report, "Traceback\nno route", required=required)
    assert got == status and words in lines[0]


def test_images_start_from_what_their_files_pin() -> None:
    """A release of Debian, whose packages apt verifies, and locked Python packages; nothing by a moving tag."""
    for path in (ROOT / "docker").glob("*.Dockerfile"):
        text = path.read_text()
        assert re.findall(r"^ARG BASE=(\S+)", text, re.MULTILINE) == ["docker.io/library/debian:bookworm-slim"]
        assert "--require-hashes" in text or "tools.environment" in text
    assert ":latest" not in Path(ROOT / "docker" / "compose.yaml").read_text()


def test_the_server_cannot_be_uploaded_by_mistake() -> None:
    """Package indexes refuse what has this classifier; its packages have names that others have, too."""
    assert "Private :: Do Not Upload" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
