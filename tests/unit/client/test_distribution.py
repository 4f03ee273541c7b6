"""The distributed wheel: it works outside the checkout, needs few packages, and is imported fast."""

from __future__ import annotations

import subprocess
import sys
from email import message_from_string
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.unit.tools.test_house import ROOT

MAX_PACKAGES = 15
SERVER = ("service", "worker", "analysis", "jobs", "kernels")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT / "client", check=True, capture_output=True)
    (made,) = folder.glob("matmul_client-*-py3-none-any.whl")
    return made


def run(code: str, path: Path, folder: Path) -> str:
    """In a Python that has the wheel, and of this checkout nothing."""
    lines = f"import sys; sys.path.insert(0, {str(path)!r})\n{code}"
    done = subprocess.run([sys.executable, "-I", "-c", lines], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_works_elsewhere(wheel: Path, tmp_path: Path) -> None:
    told = run("import matmul_client; print(matmul_client.Client.__module__, matmul_client.__file__)", wheel, tmp_path)
    assert told.split() == ["matmul_client.client", f"{wheel}/matmul_client/__init__.py"]
    code = "sys.argv = ['matmul', '--version']; from matmul_client.cli.main import main; main()"
    assert run(code, wheel, tmp_path).startswith("matmul-client ")


def test_what_the_wheel_holds(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        text = {name.rpartition("/")[2]: archive.read(name).decode() for name in names if ".dist-info/" in name}
    assert "matmul_client/py.typed" in names and "LICENSE" in text
    assert not [name for name in names if name.split("/")[0] in SERVER]
    assert "matmul = matmul_client.cli.main:main" in text["entry_points.txt"]
    metadata = message_from_string(text["METADATA"])
    assert metadata["Requires-Python"] == ">=3.10"
    always = [line for line in metadata.get_all("Requires-Dist", []) if "extra" not in line]
    assert sorted(line.split(">")[0] for line in always) == ["anyio", "httpx2", "numpy"]


def test_importing_it_loads_little(wheel: Path, tmp_path: Path) -> None:
    """Not timed here: what takes the time is not loaded."""
    loaded = "print(*{name.partition('.')[0] for name in sys.modules})"
    package = run(f"import matmul_client; {loaded}", wheel, tmp_path).split()
    assert not {"httpx2", "numpy", "click", "rich", "asyncio"} & {*package}
    client = run(f"from matmul_client import Client; {loaded}", wheel, tmp_path).split()
    assert not {"httpx2", "anyio", "numpy", "click", "rich", "ml_dtypes"} & {*client}
    command = run(f"import matmul_client.cli.commands; {loaded}", wheel, tmp_path).split()
    assert not {"httpx2", "numpy", "rich"} & {*command}


def test_it_needs_few_packages() -> None:
    """Client and command, each package once, this one among them."""
    lines = (ROOT / "constraints" / "client.txt").read_text().splitlines()
    here = [line for line in lines if "==" in line and "sys_platform == 'emscripten'" not in line]
    assert len({line.partition("==")[0] for line in here}) + 1 <= MAX_PACKAGES
