"""How warpgroups multiply and promote, by the source's own loops: sums and stages, with tensor cores as late as they
may be."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kernels.catalog import BY_NAME
from kernels.model.sources import source_files
from tests.emulation.programs import ENVIRONMENT, compile_host_program

HERE = Path(__file__).parent

TILES = [
    (columns, steps, alone)
    for columns in (64, 128, 192, 256)
    for steps in (1, 2, 7, 8, 9, 16, 19, 0, 3)
    for alone in (0, 1, 0)
]
KERNEL = BY_NAME["hopper_fp8"]
FEWEST_STAGES = min(config["stages"] for config in KERNEL.configs())


def compiled(directory: Path, change: tuple[str, str] | None = None) -> Path:
    """A program around the source, or around one with a mistake: what is replaced, and by what."""
    name = "hopper_promoted.cuh"
    text = source_files()[name].read_text()
    if change is not None:
        assert text.count(change[0]) == 1, change
        (directory / name).write_text(text.replace(*change))
    options = [f"-DSTAGES={FEWEST_STAGES}", f"-I{directory}", "-pthread"]
    if change is not None:
        options.append("-fno-sanitize=all")  # a mistake is one of sums or stages; without, it compiles in half the time
    return compile_host_program(HERE / "promoted.cpp", directory / "promoted", *options)


def verdict(program: Path) -> str:
    lines = "".join(f"{columns} {steps} {alone}\n" for columns, steps, alone in TILES)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, env=ENVIRONMENT, timeout=240)
    assert not done.stderr, done.stderr
    return done.stdout.strip()


def test_sums_are_right_and_no_stage_is_released_early(tmp_path: Path) -> None:
    assert verdict(compiled(tmp_path)) == "right"


EARLY = "a stage is released while it is read"
MISTAKES = [
    ("wgmma_wait_group<1>();\n                fence_accumulators(partial[1 - set]);", "", EARLY),
    ("if (column == 0) release(at, before);", "if (column == 0) release(at, place.stage);", EARLY),
    ("promote(partial[1], sums + (N - COLUMNS) / 2, N - COLUMNS);", "", "a sum is wrong"),
    ("fence_accumulators(partial[1]);", "promote(partial[0], sums, 0);", "a sum is wrong"),
    ("(is_last) wait_for_next(at, place, step + 1 < steps)", "(is_last) release(at, place.stage)", EARLY),
]


@pytest.mark.parametrize(("source", "mistake", "said"), MISTAKES)
def test_mistakes_are_found(tmp_path: Path, source: str, mistake: str, said: str) -> None:
    assert verdict(compiled(tmp_path, (source, mistake))) == said
