"""Which packages are installed for a driver, and when they are reinstalled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import environment


@pytest.mark.parametrize(
    ("series", "cuda"), [(None, None), (470, None), (525, "12"), (575, "12"), (580, "13"), (615, "13")]
)
def test_cuda_follows_the_driver(series: int | None, cuda: str | None) -> None:
    assert environment.cuda_for_driver(series) == cuda


@pytest.mark.parametrize(
    ("purpose", "cuda", "names"),
    [
        ("run", None, ["run.txt", "client.txt"]),
        ("run", "13", ["cuda13.txt", "client.txt"]),
        ("dev", None, ["dev.txt", "client.txt"]),
        ("dev", "12", ["dev.txt", "cuda12.txt", "client.txt"]),
        ("fuzz", None, ["dev.txt", "fuzz.txt", "client.txt"]),
    ],
)
def test_requirement_files(purpose: str, cuda: str | None, names: list[str]) -> None:
    files = environment.requirement_files(purpose, cuda)
    assert [path.name for path in files] == names
    assert all(path.exists() for path in files)


def test_fingerprint_follows_the_requirements(tmp_path: Path) -> None:
    requirements = tmp_path / "run.txt"
    requirements.write_text("a==1")
    before = environment.fingerprint([requirements])
    assert environment.fingerprint([requirements]) == before
    requirements.write_text("a==2")
    assert environment.fingerprint([requirements]) != before


def test_what_tests_need_is_enough_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv = tmp_path / ".venv"
    python = venv / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    (venv / "pyvenv.cfg").write_text(f"command = python3 -m venv {venv}\n")
    monkeypatch.setattr(environment, "VENV", venv)
    monkeypatch.setattr(environment, "VENV_PYTHON", python)
    assert not environment.is_current("run", None)

    (venv / "dev.stamp").write_text(environment.fingerprint(environment.requirement_files("dev", None)))
    assert environment.is_current("dev", None)
    assert environment.is_current("run", None)
    assert not environment.is_current("run", "13")  # a GPU came into the machine


def test_a_moved_checkout_gets_a_new_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv = tmp_path / ".venv"
    python = venv / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    monkeypatch.setattr(environment, "VENV", venv)
    monkeypatch.setattr(environment, "VENV_PYTHON", python)
    (venv / "pyvenv.cfg").write_text("command = python3 -m venv /elsewhere/.venv\n")
    assert not environment.is_made_here()
    (venv / "pyvenv.cfg").write_text(f"command = python3 -m venv {venv}\n")
    assert environment.is_made_here()


def test_a_linked_environment_is_not_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere, venv = tmp_path / "elsewhere", tmp_path / ".venv"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    venv.symlink_to(elsewhere)
    monkeypatch.setattr(environment, "VENV", venv)
    monkeypatch.setattr(environment, "VENV_PYTHON", venv / "bin" / "python")
    with pytest.raises(SystemExit, match=r"is a link to .*elsewhere"):
        environment.pip_command()
    assert (elsewhere / "kept").exists()
