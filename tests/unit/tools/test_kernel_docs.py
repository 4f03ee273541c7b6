"""docs/kernels.md, its pictures and their data are what the catalogue makes of them, and say what they must."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from kernels.catalog import CATALOG
from kernels.model.architectures import H200
from kernels.model.entry.config import Constraint
from kernels.model.kernel import CudaKernel
from kernels.published import PUBLISHED
from kernels.published_records import PublishedRecord
from tools.docs.generate import PICTURES, surplus
from tools.kernels import docs as kernel_docs
from tools.kernels import figures as kernel_figures
from tools.kernels.access import access_of, models, recorded, stale
from tools.kernels.model import Model, model_of
from tools.kernels.pictures import picture, pictures
from tools.svg import Picture

SVG = "{http://www.w3.org/2000/svg}"
RUNGS = [kernel for kernel in CATALOG if isinstance(kernel, CudaKernel)]
OURS = [kernel for kernel in RUNGS if not kernel.architecture_specific]  # those that are traced, and drawn
NAMES = [kernel.name for kernel in OURS]
BOX = re.compile(r"M([\d.-]+) ([\d.-]+)h([\d.]+)v([\d.]+)h-\3z")  # x, y, width and height
EACH = pytest.mark.parametrize("kernel", OURS, ids=NAMES)
CHARACTER_WIDTH = 0.58  # of the font's size, on average and with something to spare


def test_every_kernel_was_traced_as_it_is_now() -> None:
    assert stale(recorded()) == [], "run `make docs`"
    assert list(recorded()) == NAMES == list(models())


def test_every_kernel_has_its_picture_and_no_other_has() -> None:
    drawn = dict(pictures())
    assert list(drawn) == [kernel.name for kernel in RUNGS]
    assert surplus() == []
    outdated = [name for name, svg in drawn.items() if (PICTURES / f"{name}.svg").read_text("utf-8") != svg]
    assert not outdated, "run `make docs`"


@EACH
def test_a_picture_says_in_words_what_it_shows(kernel: CudaKernel) -> None:
    root = ElementTree.fromstring(dict(pictures())[kernel.name])
    assert root.get("role") == "img"
    assert str(root.get("aria-labelledby")).split() == ["title", "description"]
    assert kernel.name in (root.findtext(f"{SVG}title") or "")
    told = root.findtext(f"{SVG}desc") or ""
    model = model_of(kernel)
    assert f"A block of {model.threads} threads computes {model.tile[0]} × {model.tile[1]} elements of C" in told
    assert "first load from A: " in told and "first load from B: " in told


def test_a_picture_of_what_was_not_traced_tells_of_blocks_alone() -> None:
    model = model_of(OURS[-1])
    traced, untraced = (picture(model, access) for access in (access_of(OURS[-1].name), None))
    assert 'class="warp" d' in traced and 'class="warp" d' not in untraced
    assert f"A block of {model.threads} threads" in untraced and "first load" not in untraced
    assert "not traced" in untraced and "not traced" not in traced


@pytest.mark.parametrize("kernel", RUNGS, ids=lambda kernel: kernel.name)
def test_nothing_reaches_beyond_a_picture(kernel: CudaKernel) -> None:
    root = ElementTree.fromstring(dict(pictures())[kernel.name])
    _, _, width, height = map(float, str(root.get("viewBox")).split())
    sides = ("x", "y", "width", "height")
    boxes = [tuple(float(shape.get(side, 0)) for side in sides) for shape in root.iter(f"{SVG}rect")]
    in_paths = [box for shape in root.iter(f"{SVG}path") for box in BOX.findall(shape.get("d", ""))]
    assert bool(in_paths) == (kernel in OURS)
    for x, y, across, down in (*boxes, *(map(float, box) for box in in_paths)):
        assert x >= 0 and x + across <= width
        assert y >= 0 and y + down <= height


def test_boxes_and_lines_are_drawn_where_they_are() -> None:
    drawn = Picture(9, 9, "", "")
    drawn.rectangles("warp", [(1, 2, 3.456, 4), (5, 6, 0.5, 1)])
    drawn.rectangles("thread", [])
    drawn.lines("edge", [(1, 2, 1, 3), (1, 2, 4, 2), (1, 2, 4, 5)])
    assert drawn.shapes == [
        '<path class="warp" d="M1 2h3.46v4h-3.46zM5 6h0.5v1h-0.5z"/>',
        '<path class="edge" stroke-width="1" d="M1 2V3M1 2H4M1 2L4 5"/>',
    ]


@pytest.mark.parametrize("kernel", RUNGS, ids=lambda kernel: kernel.name)
def test_no_word_reaches_beyond_a_picture(kernel: CudaKernel) -> None:
    root = ElementTree.fromstring(dict(pictures())[kernel.name])
    _, _, width, height = map(float, str(root.get("viewBox")).split())
    for words in root.iter(f"{SVG}text"):
        length = len(words.text or "") * float(words.get("font-size", 0)) * CHARACTER_WIDTH
        assert float(words.get("x", 0)) + length / (2 if words.get("text-anchor") else 1) <= width, words.text
        assert float(words.get("y", 0)) <= height


@EACH
def test_a_block_s_tile_is_what_its_warps_write(kernel: CudaKernel) -> None:
    """The launch arithmetic and the traced code agree on it."""
    model, access = model_of(kernel), access_of(kernel.name)
    assert access is not None
    (rows, columns), warps = model.tile, model.threads // 32
    assert sum(height * width for _, _, height, width in access.c_of_warp) * warps == rows * columns
    assert all(row + height <= rows and column + width <= columns for row, column, height, width in access.c_of_warp)
    of_thread = sum(height * width for _, _, height, width in access.c_of_thread)
    assert of_thread == rows * columns / model.threads


def test_the_model_of_a_tile() -> None:
    kernel = next(kernel for kernel in OURS if kernel.name == "register_tiled")
    config = kernel.resolve_config({"block_m": 64, "block_n": 64, "thread_m": 4, "thread_n": 4, "block_k": 16})
    model = Model(kernel, "float32", config)
    assert (model.tile, model.depth, model.threads, model.splits) == ((64, 64), 16, 256, 1)
    assert model.traffic == (64 + 64) * 4 / (64 * 64)
    assert model.intensity == 16
    assert model.registers is not None and model.registers >= 16
    assert model.occupancy == H200.occupancy(256, model.registers, model.shared_bytes)


def test_blocks_that_share_a_tile_are_told() -> None:
    kernel = next(kernel for kernel in OURS if kernel.name == "split_k")
    alone, together = (kernel.resolve_config({"splits": splits}) for splits in (1, 16))
    assert Model(kernel, "float32", alone).tile == Model(kernel, "float32", together).tile
    assert Model(kernel, "float32", together).splits == 16


def test_the_ladder_has_a_row_for_each() -> None:
    rows = kernel_docs.ladder().splitlines()[2:]
    assert [re.match(r"\| \[`(\w+)`\]", row)[1] for row in rows] == [kernel.name for kernel in RUNGS]  # type: ignore[index]
    assert all(row.count("|") == rows[0].count("|") for row in rows)


@pytest.mark.parametrize(
    ("sentence", "rule"),
    [
        ("a = {a} must be even.", "a must be even."),
        ("a × b = {a} × {b} must be at most 9.", "a × b must be at most 9."),
        ("a × b / c = {a} × {b} / {c} is too many.", "a × b / c is too many."),
        ("n = {n} must be at least 8 × f = 8 × {f}.", "n must be at least 8 × f."),
        ("a and b must be equal, not {a} and {b}.", "a and b must be equal."),
        ("A block of {a}×{b} is none of: 2×2, 4×4.", "A block of a×b must be one of 2×2, 4×4."),
    ],
)
def test_a_rule_names_parameters_for_values(sentence: str, rule: str) -> None:
    assert Constraint(lambda _: True, sentence).rule == rule


@pytest.mark.parametrize("kernel", RUNGS, ids=lambda kernel: kernel.name)
def test_a_rule_of_an_entry_leaves_no_braces(kernel: CudaKernel) -> None:
    assert not [rule for constraint in kernel.constraints if "{" in (rule := constraint.rule)]


def test_the_reports_figures_are_shown() -> None:
    table = kernel_figures.published("register_tiled_rows")
    (row,) = table.splitlines()[4:]
    assert row.startswith("| 003 | Improved 1D Block Tiling | NVIDIA GeForce RTX 3070 Laptop GPU |")
    assert "| 000 | naive | NVIDIA T4 | 1024 | 80 |" in kernel_figures.published("naive")  # of six sizes the best
    assert kernel_figures.published("no_such_kernel") == ""


RECORD = PublishedRecord(
    kernel="naive",
    label="naive",
    section="float32, 4096×4096×4096",
    dtype="float32",
    m=4096,
    n=4096,
    k=4096,
    config={"block_m": 8, "block_n": 32},
    kernel_ms=20.5,
    gflops=6704.4,
    fraction_of_cublas=0.1304,
    error_vs_float64=1.2e-6,
    registers=32,
    occupancy=1.0,
)


def test_our_figures_are_shown_once_they_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def ship(*records: PublishedRecord) -> None:
        ours = replace(PUBLISHED["h200_large"], records=records)
        monkeypatch.setattr(kernel_figures, "PUBLISHED", {"h200_large": ours})

    monkeypatch.setattr(kernel_figures, "_ours", kernel_figures._ours.__wrapped__)  # what is cached is what ships
    ship()
    assert kernel_figures.measured("naive") == ""
    assert "GFLOPS at" not in kernel_docs.ladder()
    other_config = replace(RECORD, n=2048, m=2048, k=2048, config={"block_m": 32, "block_n": 32})
    oblong, library = replace(RECORD, m=16), replace(RECORD, kernel="cublas", config={}, occupancy=None)
    ship(RECORD, other_config, oblong, library, replace(RECORD, gflops=1.0))
    text = kernel_figures.measured("naive")
    assert text.startswith("Measured on an NVIDIA H200")
    assert text.count("| float32 |") == 1 and "| float32 | 4096 | 20.5 | 6,704 | 0.130 | 1.2e-06 | 32 | 1 |" in text
    assert "| float32 | 4096 | 20.5 | 6,704 | 0.130 | 1.2e-06 | 32 |  |" in kernel_figures.measured("cublas")
    assert kernel_figures.measured("vectorized") == ""
    ladder = kernel_docs.ladder()
    assert "GFLOPS at 4096, of cuBLAS" in ladder
    assert re.search(r"\[`naive`\].*\| 6,704, 0.13 \|", ladder)
    assert "Measured on an NVIDIA H200" in kernel_docs.kernels()
