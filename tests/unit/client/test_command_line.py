"""The command `matmul` where it is told what it cannot do, and where its surroundings lack something."""

from __future__ import annotations

import io
import json
import os
import pwd
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result

from matmul_client.cli import watching
from matmul_client.cli.commands import matmul
from matmul_client.cli.main import main
from matmul_client.cli.settings import INTERRUPTED, Settings, configured
from matmul_client.handles import Benchmark

NOBODY = "http://127.0.0.1:1"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(matmul, arguments, env={"MATMUL_URL": NOBODY})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["multiply", "missing.npy", "b.npy", "--json"], "'missing.npy' does not exist"),
        (["--json", "multiply"], "Missing argument 'A'"),
        (["--json", "nonsense"], "No such command 'nonsense'"),
        (["--nonsense", "--json"], "No such option '--nonsense'"),
        (["jobs", "--limit", "0", "--json"], "0 is not in the range"),
        (["bench", "run", "--json"], "matmul bench run quick"),
    ],
)
def test_a_wrong_command_line_is_told_in_json_where_that_is_asked_for(arguments: list[str], words: str) -> None:
    told = run(*arguments)
    assert told.exit_code == 2 and words in json.loads(told.stderr)["error"]
    in_words = run(*(each for each in arguments if each != "--json"))
    assert in_words.exit_code == 2 and in_words.stderr.startswith("Usage: ")


def test_help_that_is_asked_for_by_nothing_is_no_error_in_json() -> None:
    assert "Commands:" in run("--json", "bench").output


@pytest.mark.parametrize("name", ["preset", "timeout", "self"])
def test_what_is_no_field_of_a_benchmark_is_told(name: str) -> None:
    told = run("bench", "run", "quick", "--set", f"{name}=3")
    assert told.exit_code == 2 and f"--set takes no {name}" in told.stderr


@pytest.mark.parametrize(
    ("encoding", "errors", "shown"),
    [
        ("latin-1", "strict", b"2\xd72 ? ?\n"),
        ("ascii", "surrogateescape", b"2?2 ? ?\n"),  # a terminal without a locale
        ("utf-8", "strict", "2×2 █ ?\n".encode()),
        ("utf-8", "surrogateescape", "2×2 █ ".encode() + b"\xff\n"),
    ],
)
def test_what_an_encoding_lacks_is_replaced(
    encoding: str, errors: str, shown: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of files may be no text at all."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding, errors=errors))
    monkeypatch.setattr(sys, "argv", ["matmul", "--version"])
    with pytest.raises(SystemExit):
        main()
    print("2×2 █ \udcff", flush=True)
    assert written.getvalue().endswith(b"\n" + shown)


def test_a_user_without_a_home_has_no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user is a number."""

    def nobody(_: int) -> None:
        raise KeyError

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(RuntimeError):
        Path.home()
    assert configured() == {}


class Loading:
    """A module at whose loading Ctrl-C comes."""

    def __getattr__(self, _: str) -> None:
        raise KeyboardInterrupt


def test_ctrl_c_has_its_status_from_the_first_moment_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("matmul_client.cli.settings._given", interrupted)
    assert run("kernels").exit_code == INTERRUPTED
    monkeypatch.setitem(sys.modules, "matmul_client.cli.commands", cast(Any, Loading()))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == INTERRUPTED


class Run:
    id = "job_1"
    cancels = 0

    def cancel(self, **_: Any) -> None:
        self.cancels += 1


def test_ctrl_c_without_standard_input_cancels(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run()
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SystemExit) as ended:
        watching._interrupted(cast(Benchmark, run), Settings(None, None, 1.0, as_json=False))
    assert (ended.value.code, run.cancels) == (INTERRUPTED, 1)


@pytest.mark.parametrize("option", [["-o", "r.json"], ["--plot", "p.svg"]])
def test_a_benchmark_that_is_not_watched_writes_no_files(option: list[str], tmp_path: Path) -> None:
    told = run("bench", "run", "quick", "--detach", option[0], str(tmp_path / option[1]))
    assert told.exit_code == 2 and "to `matmul bench watch` later" in told.stderr


@pytest.mark.parametrize(("name", "words"), [("", "it is empty"), ("n" * 5000, "File name too long")])
def test_a_name_that_no_file_can_have_is_told_first(name: str, words: str) -> None:
    told = run("bench", "run", "quick", "-o", name)
    assert told.exit_code == 2 and words in told.stderr


def test_a_configuration_may_begin_with_the_mark_of_its_encoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As editors on Windows write it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "matmul").mkdir()
    (tmp_path / "matmul" / "config.toml").write_text("timeout = 3\n", encoding="utf-8-sig")
    assert configured() == {"timeout": 3}


def test_standard_output_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["bench", "run", "quick"], ["report"]):
        told = run(*words, "-o", "-")
        assert told.exit_code == 2 and "/dev/stdout is standard output" in told.stderr
    assert os.listdir() == []
