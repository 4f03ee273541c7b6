"""`matmul`, as a person and as a script uses it."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np
import pytest
from click.testing import CliRunner, Result

from matmul_client import Client
from matmul_client.cli.commands import matmul
from matmul_client.handles import Benchmark
from tests.integration.client.conftest import SMALL, waiting
from tests.integration.client.terminal import Terminal
from tools.harness.api import Api, until
from tools.stack import Stack

FIELDS = [word for name, value in SMALL.items() for word in ("--set", f"{name}={json.dumps(value)}")]


@pytest.fixture(autouse=True)
def no_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.arange(6.0).reshape(2, 3))
    np.save("b.npy", np.ones((3, 2)))


def run(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(matmul, arguments, env={"MATMUL_URL": url})


def read(url: str, *arguments: str) -> Any:
    done = run(url, *arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_multiply(stack: Stack) -> None:
    done = run(stack.url, "multiply", "a.npy", "b.npy", "-o", "c.npy")
    assert done.exit_code == 0 and "2×2 float64 in c.npy: cpu_blas" in done.stdout
    assert np.array_equal(np.load("c.npy"), [[3, 3], [12, 12]])
    told = read(stack.url, "multiply", "a.npy", "a.npy", "--transpose-b", "--alpha", "2")
    assert told["c"] == [[10, 28], [28, 100]] and told["job"]["verification"]["passed"]
    within = run(stack.url, "multiply", "a.npy", "b.npy", "--tolerance", "1e-12", "--tolerance-kind", "normwise")
    assert "verified, error within 3.33e-16 (normwise)." in within.stderr
    told = read(stack.url, "multiply", "a.npy", "b.npy", "--reproducible")["job"]
    assert (told["kernel"], told["request"]["reproducible"]) == ("cpu_exact", True)
    np.save("row.npy", [-5.0, 1.0])
    layer = ("--bias", "row.npy", "--activation", "relu", "--output-dtype", "float32")
    told = read(stack.url, "multiply", "a.npy", "b.npy", *layer)
    assert told["c"] == [[0, 4], [7, 13]] and told["job"]["product"]["dtype"] == "float32"
    told = read(stack.url, "multiply", "a.npy", "a.npy", "--transpose-a", "--fp8-blocks")
    np.testing.assert_allclose(told["c"], [[9, 12, 15], [12, 17, 22], [15, 22, 29]], rtol=0.1)
    assert [told["job"]["request"][f"scale_{name}"]["shape"] for name in "ab"] == [[1, 3], [1, 1]]
    short = run(stack.url, "multiply", "a.npy", "a.npy", "--transpose-b", "--output-dtype", "bfloat16", "-o", "c.npy")
    assert "bfloat16 in c.npy, as float32, since .npy has no bfloat16: " in short.stdout
    assert np.load("c.npy").dtype == np.float32
    refused = run(stack.url, "multiply", "a.npy", "a.npy", "--json")
    assert refused.exit_code == 4 and json.loads(refused.stderr)["code"] == "shape_mismatch"
    Path("text.npy").write_text("no matrix")
    assert run(stack.url, "multiply", "a.npy", "text.npy").exit_code == 2


def test_complex_matrices(stack: Stack) -> None:
    z = np.array([[1 + 2j, 3, -1j], [0, 1j, 2]])
    np.save("z.npy", z)
    conjugated = ("multiply", "z.npy", "z.npy", "--transpose-b", "--conjugate-b", "--alpha", "0.5-2i")
    done = run(stack.url, *conjugated, "-o", "h.npy")
    assert done.exit_code == 0 and "2×2 complex128 in h.npy: cpu_blas" in done.stdout, done.output
    expected = (0.5 - 2j) * (z @ z.conj().T)
    np.testing.assert_allclose(np.load("h.npy"), expected, rtol=1e-14)
    told = np.array(read(stack.url, *conjugated)["c"])
    np.testing.assert_allclose(told[..., 0] + 1j * told[..., 1], expected, rtol=1e-14)
    with Client(stack.url) as client:
        stored = client.upload(z.astype(np.complex64))
        np.testing.assert_array_equal((stored @ stored.H).result(), z @ z.conj().T)
        np.testing.assert_array_equal(stored.H.numpy(), z.conj().T)
        np.testing.assert_array_equal(client.matmul(z, z.real.T), z @ z.real.T)  # of mixed types, as numpy promotes
    wrong = run(stack.url, "multiply", "z.npy", "z.npy", "--alpha", "1+i2")
    assert wrong.exit_code == 2 and "1+i2 is not a number, such as 0.5 or 1-2i" in wrong.stderr


def test_lists(stack: Stack, measured: Benchmark) -> None:
    assert "cpu_blas" in run(stack.url, "kernels").stdout
    assert read(stack.url, "kernels", "warp_tiled")["name"] == "warp_tiled"
    assert "block_m" in run(stack.url, "kernels", "warp_tiled").stdout
    assert read(stack.url, "devices")[0]["queue"] == "cpu" and "ladder" in run(stack.url, "bench", "presets").stdout
    assert measured.id in run(stack.url, "jobs", "--kind", "benchmark").stdout
    assert read(stack.url, "jobs", "show", measured.id)["id"] == measured.id
    assert run(stack.url, "jobs", "show", "job_" + "0" * 32).exit_code == 4


def test_a_benchmark_in_a_terminal(stack: Stack, measured: Benchmark) -> None:
    with Terminal("bench", "watch", measured.id, "--plot", "p.svg", "-o", "r.json", MATMUL_URL=stack.url) as terminal:
        assert terminal.end() == 0
    assert "2/2" in terminal.screen and "s left" in terminal.screen and "█" in terminal.screen
    assert "<svg" in Path("p.svg").read_text() and len(json.loads(Path("r.json").read_text())["records"]) == 2


def test_a_benchmark_in_a_script(stack: Stack, measured: Benchmark) -> None:
    assert read(stack.url, "bench", "watch", measured.id)["complete"]
    assert "2/2 cpu_blas" in run(stack.url, "bench", "watch", measured.id).stderr
    compared = run(stack.url, "bench", "compare", measured.id, measured.id, "--check")
    assert compared.exit_code == 0 and "cpu_blas" in compared.stdout
    assert read(stack.url, "report", measured.id, "-o", "r.html")["bytes"] == Path("r.html").stat().st_size
    assert run(stack.url, "report", measured.id, "-o", "r.txt").exit_code == 2
    assert read(stack.url, "report", "-o", "r.md", "--author", "Ö. Student", "--conclusion", "It is so.")["bytes"]
    mine = Path("r.md").read_text()
    assert "- Author: Ö. Student\n" in mine and "\n## Conclusion\n\nIt is so.\n" in mine
    assert read(stack.url, "report", "-o", "newest.html")["job"] == measured.id
    assert read(stack.url, "report", "-o", "r.zip")["bytes"] and is_zipfile("r.zip")


def test_a_report_needs_a_benchmark(idle: Api) -> None:
    none = run(idle.url, "report", "-o", "r.html")
    assert none.exit_code == 2 and "matmul bench run quick" in none.stderr


def test_ctrl_c_asks(idle: Api) -> None:
    with Terminal("bench", "run", *FIELDS, MATMUL_URL=idle.url) as terminal:
        terminal.until("job_")
        terminal.ctrl_c()
        terminal.until("cancel it?")
        assert waiting(idle) == 1
        terminal.type("d\n")
        assert terminal.end() == 0
    assert waiting(idle) == 1 and "matmul bench watch job_" in terminal.screen
    with Client(idle.url) as mm:
        job_id = mm.jobs(state="queued")[0]["id"]
    with Terminal("bench", "watch", job_id, MATMUL_URL=idle.url) as terminal:
        terminal.until("job_")
        terminal.ctrl_c()
        terminal.until("cancel it?")
        terminal.type("c\n")
        assert terminal.end() == 130
    assert waiting(idle) == 0
    with Terminal("multiply", "a.npy", "b.npy", MATMUL_URL=idle.url) as terminal:
        until(lambda: waiting(idle) > 0)
        terminal.ctrl_c()
        assert terminal.end() == 130
    assert waiting(idle) == 0


def test_a_product_that_comes_too_late_is_cancelled(idle: Api) -> None:
    """Nobody could cancel it later: its id was not told."""
    late = run(idle.url, "multiply", "a.npy", "b.npy", "--timeout", "1")
    assert late.exit_code == 3 and "did not end in its 1 s" in late.stderr
    with Client(idle.url) as mm:
        assert mm.jobs(limit=1)[0]["state"] == "cancelled"


def test_a_reader_that_has_enough_is_no_error(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `matmul kernels --json | head -1`."""

    def broken(_: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("matmul_client.cli.lists.print_json", broken)
    cut = run(stack.url, "kernels", "--json")
    assert (cut.exit_code, cut.stderr) == (1, "")


def test_where_the_service_is(stack: Stack, tmp_path: Path) -> None:
    """An option before a variable before the file; each may be missing."""
    (tmp_path / "matmul").mkdir()
    config = tmp_path / "matmul" / "config.toml"
    config.write_text(f'url = "{stack.url}"\n')
    assert CliRunner().invoke(matmul, ["kernels"], env={"MATMUL_URL": None}).exit_code == 0
    dead = "http://127.0.0.1:1"
    assert run(dead, "kernels", "--timeout", "0.3").exit_code == 3
    assert run(dead, "kernels", "--url", stack.url).exit_code == 0
    config.write_text("host = 1\n")
    wrong = run(stack.url, "kernels")
    assert wrong.exit_code == 2 and "url, api_key, timeout" in wrong.stderr
    wrong_lines = ("url = 3", "a text in quotes"), ('timeout = "x"', "a number"), ("timeout = true", "a number")
    for line, words in (*wrong_lines, ("timeout = -1", "0.1 s or more"), ("timeout = nan", "0.1 s or more")):
        config.write_text(line)
        wrong = run(stack.url, "--json", "kernels")
        assert wrong.exit_code == 2 and words in json.loads(wrong.stderr)["error"]


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--key", "abc\n", "devices"], 2, "The API key has characters"),
        (["--url", "http://127.0.0.1/a b", "devices"], 2, "is not one"),
        (["--timeout", "nan", "devices"], 2, "0.1 s or more"),
        (["jobs", "show", "a b"], 4, "no job with that id"),
        (["jobs", "show", "ü?x=1"], 4, "no job with that id"),
    ],
)
def test_what_no_request_can_carry_is_one_sentence(stack: Stack, arguments: list[str], status: int, words: str) -> None:
    result = run(stack.url, *arguments)
    assert (result.exit_code, result.exception.__class__) == (status, SystemExit)
    assert words in result.stderr and "broke off" not in result.stderr


def test_options_may_stand_before_the_command(stack: Stack) -> None:
    assert run("http://127.0.0.1:1", "--url", stack.url, "--json", "jobs", "--limit", "1").exit_code == 0
    told = run(stack.url, "jobs", "--json", "show", "job_" + "0" * 32)
    assert told.exit_code == 4 and json.loads(told.stderr)["code"] == "job_not_found"


def test_files_are_written_as_named_or_refused_first(idle: Api, stack: Stack) -> None:
    assert run(stack.url, "multiply", "a.npy", "b.npy", "-o", "product").exit_code == 0
    assert np.array_equal(np.load("product"), [[3, 3], [12, 12]])
    done = run(idle.url, "multiply", "a.npy", "b.npy", "-o", "missing/c.npy")
    assert done.exit_code == 2 and "does not exist" in done.stderr and waiting(idle) == 0
    full = run(stack.url, "multiply", "a.npy", "b.npy", "-o", "/dev/full")
    assert full.exit_code == 2 and "No space left" in full.stderr
    np.savez("two.npz", a=np.ones((2, 2)))
    assert "two.npz is not an .npy file" in run(stack.url, "multiply", "two.npz", "b.npy").stderr


def test_tables_fit_the_terminal(stack: Stack, measured: Benchmark) -> None:
    """Words are not broken: what has no room is left out, and named."""
    narrow = CliRunner().invoke(matmul, ["jobs", "--kind", "benchmark"], env={"MATMUL_URL": stack.url, "COLUMNS": "64"})
    assert measured.id in narrow.stdout and "gflops" not in narrow.stdout and "gflops" in narrow.stderr
    assert all(len(line) <= 64 for line in narrow.stdout.splitlines())
    wide = run(stack.url, "bench", "compare", measured.id, measured.id)
    assert "float64" in wide.stdout or "float32" in wide.stdout


def test_what_needs_a_checkout_says_so(tmp_path: Path) -> None:
    for name in ("up", "keys"):
        told = run("", name)
        assert told.exit_code == 2 and "checkout" in told.stderr


def test_help_has_examples_and_shells_complete() -> None:
    for words in (
        [],
        ["multiply"],
        ["bench"],
        ["bench", "run"],
        ["jobs"],
        ["kernels"],
        ["devices"],
        ["report"],
        ["up"],
    ):
        assert "Example" in run("", *words, "--help").stdout
    assert "_MATMUL_COMPLETE=zsh_complete" in run("", "completion", "zsh").stdout
