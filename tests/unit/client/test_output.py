"""Files and JSON that the command writes."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click
import numpy as np
import pytest
from click.testing import CliRunner

from matmul_client.cli.commands import matmul
from matmul_client.cli.output import OutputFile, write_whole
from matmul_client.cli.settings import Settings

RECORD = {
    "product": {"shape": [1, 4], "dtype": "float64"},
    "gflops": None,
    "verification": {"passed": True},
    "kernel": "cpu_blas",
    "device": "a CPU",
}


def disk_full(file: BinaryIO) -> None:
    file.write(b"half")
    raise OSError(errno.ENOSPC, "No space left on device")


def interrupted(file: BinaryIO) -> None:
    file.write(b"half")
    raise KeyboardInterrupt


@pytest.mark.parametrize(("write", "error"), [(disk_full, OSError), (interrupted, KeyboardInterrupt)])
def test_a_file_stays_as_it_was_until_the_new_one_is_whole(
    tmp_path: Path, write: Any, error: type[BaseException]
) -> None:
    path = tmp_path / "c.npy"
    for before in (None, b"whole"):
        if before is not None:
            path.write_bytes(before)
        with pytest.raises(error) as raised:
            write_whole(path, write)
        assert [each.name for each in tmp_path.iterdir()] == ([] if before is None else ["c.npy"])
        assert before is None or path.read_bytes() == before
        assert not isinstance(raised.value, OSError) or raised.value.filename == str(path)


def test_links_and_permissions_are_kept(tmp_path: Path) -> None:
    path, link = tmp_path / "c.npy", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_whole(link, lambda file: file.write(b"new"))
    assert link.is_symlink() and path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, lambda file: np.save(file, np.eye(2)))  # numpy asks where it is in a file
    reader.join(30)
    assert np.array_equal(np.load(io.BytesIO(read[0])), np.eye(2)) and pipe.is_fifo()


def test_a_pipe_without_a_name_is_written_to() -> None:
    """As by `-o >(…)`, or `-o /dev/stdout | …`."""
    theirs, ours = os.pipe()
    try:
        write_whole(Path(f"/dev/fd/{ours}"), lambda file: file.write(b"all of it"))
        assert os.read(theirs, 100) == b"all of it"
    finally:
        os.close(theirs)
        os.close(ours)


def test_a_pipe_needs_no_room_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/dev is the superuser's."""
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(os.fsdecode(path)) != tmp_path)
    assert OutputFile().convert(str(tmp_path / "pipe"), None, None) == tmp_path / "pipe"
    with pytest.raises(click.BadParameter, match="cannot be written to"):
        OutputFile().convert(str(tmp_path / "file"), None, None)


def test_a_name_may_be_as_long_as_names_can_be(tmp_path: Path) -> None:
    path = tmp_path / ("n" * os.pathconf(tmp_path, "PC_NAME_MAX"))
    write_whole(path, lambda file: file.write(b"whole"))
    assert path.read_bytes() == b"whole" and [*tmp_path.iterdir()] == [path]


class PlayedJob:
    """Its product can be fetched once its record was; nothing answers afterwards."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.operands: tuple[Any, ...] = ()
        self.options: dict[str, Any] = {}

    def wait(self) -> dict[str, Any]:
        self.calls.append("wait")
        return RECORD

    def result(self) -> np.ndarray[Any, Any]:
        self.calls.append("result")
        return np.array([[1.0, np.nan, np.inf, -np.inf]])


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlayedJob:
    played = PlayedJob()

    class Client:
        def submit(self, *operands: Any, **options: Any) -> PlayedJob:
            played.operands, played.options = operands, options
            return played

    @contextmanager
    def client(_settings: Settings) -> Any:
        yield Client()

    monkeypatch.setattr(Settings, "client", client)
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.eye(4))
    return played


def test_nothing_is_asked_once_the_product_is_there(job: PlayedJob) -> None:
    done = CliRunner().invoke(matmul, ["multiply", "a.npy", "a.npy", "-o", "c.npy"])
    assert done.exit_code == 0, done.output
    assert job.calls == ["wait", "result"] and np.load("c.npy").shape == (1, 4)


def test_zero_is_a_number_as_any_other(job: PlayedJob) -> None:
    zeros = [word for name in ("--alpha", "--beta", "--tolerance") for word in (name, "0")]
    done = CliRunner().invoke(matmul, ["multiply", "a.npy", "a.npy", "--add", "a.npy", *zeros])
    assert done.exit_code == 0, done.output
    assert {*job.options} == {"c", "alpha", "beta", "tolerance"}
    assert [job.options[name] for name in ("alpha", "beta", "tolerance")] == [0.0] * 3


def test_an_operand_may_come_through_a_pipe(job: PlayedJob) -> None:
    """As by `matmul multiply <(…) b.npy`; and the product may go through one, of which its summary is no part."""
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_bytes(Path("a.npy").read_bytes()))
    writer.start()
    done = CliRunner().invoke(matmul, ["multiply", "pipe", "a.npy", "-o", "/dev/null"])
    writer.join(30)
    assert done.exit_code == 0 and done.stdout == "" and "verified" in done.stderr, done.output
    assert np.array_equal(job.operands[0], np.eye(4))


def test_json_has_strings_for_what_json_has_no_number_for(job: PlayedJob) -> None:
    done = CliRunner().invoke(matmul, ["multiply", "a.npy", "a.npy", "--json"])

    def no_constant(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    assert json.loads(done.stdout, parse_constant=no_constant)["c"] == [[1.0, "NaN", "Infinity", "-Infinity"]]
    assert job.calls == ["wait", "result"]
