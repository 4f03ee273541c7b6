"""A new kernel is its source and one entry: in a copy of this repository, everything else follows from them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.emulation.programs import compiler
from tools.docs.generate import PICTURES

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("docs", *(path.parent.name for path in ROOT.glob("*/__init__.py")))
SOURCE = """\
// A toy: one thread per element, a row of threads a block.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(WIDTH)
    toy(const Element* a, const Element* b, Product* c, Index m, Index n, Index k, Index lda, Index ldb, Index ldc,
        Index stride_a, Index stride_b, Index stride_c, Index batch) {
    const Tile tile = tile_of_block(n, 1, WIDTH);
    const Index column = tile.column + threadIdx.x;
    if (column >= n) return;
    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        Accumulator sum = 0;
        for (Index depth = 0; depth < k; ++depth)
            sum = multiply_add(
                widen(a[item * stride_a + tile.row * row_step_a(lda) + depth * column_step_a(lda)]),
                widen(b[item * stride_b + depth * row_step_b(ldb) + column * column_step_b(ldb)]), sum);
        c[item * stride_c + tile.row * ldc + column] = narrow(sum);
    }
}
"""
ENTRY = """
    CudaKernel(
        name="toy",
        summary="A toy that is not to be kept.",
        idea="One thread for each element of a row.",
        origin="A test.",
        accuracy={"float32": "fp32", "int32": "exact"},
        parameters=(Parameter("width", (32, 64), 64, "columns of the product per thread block"),),
        arrange=lambda problem, config: tile_grid(problem, (1, config["width"]), (config["width"], 1)),
    ),
"""
# What a caller sees of it, asked of the copy's own service.
ASK = """
import json, sys, tempfile
from pathlib import Path
from jobs.redis.embedded import EmbeddedServer
from tools.harness.api import running_api

directory = Path(tempfile.mkdtemp(dir=sys.argv[1]))
server = EmbeddedServer(directory / "redis")
server.start()
try:
    with running_api(server, "toy:", directory) as api, api.client() as client:
        seen = {path: client.get(path).json() for path in ("/openapi.json", "/v1/kernels", "/v1/kernels/toy")}
        seen |= {path: client.get(path).text for path in ("/ui/kernels", "/ui/kernels/toy")}
        seen["source"] = client.get("/v1/kernels/toy/source").text
        operand = {"random": {"shape": [8, 8], "seed": 1}}
        asked = {"a": operand, "b": operand, "kernel": "toy", "config": {"width": 33}}
        seen["refused"] = client.post("/v1/matmul", json=asked).json()
finally:
    server.stop()
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This repository with the toy in it: a new file, and an entry among those of `naive`."""
    copied = tmp_path_factory.mktemp("copy")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copied / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (copied / "kernels" / "cuda" / "toy.cu").write_text(SOURCE)
    entries = copied / "kernels" / "entries" / "one_element.py"
    text = entries.read_text()
    begin = "NAIVE: tuple[Kernel, ...] = ("
    assert text.count(begin) == 1
    entries.write_text(text.replace(begin, begin + ENTRY))
    return copied


def run(copy: Path, *command: str) -> str:
    """Python there, where only the copy's packages are found."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *command], cwd=copy, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def seen(copy: Path) -> dict[str, Any]:
    """Answers of the copy's service, after its resources were compiled."""
    assert run(copy, "-m", "tools.kernels.resources", "toy") == "toy: 4 compiled\n"
    answers: dict[str, Any] = json.loads(run(copy, "-c", ASK, str(copy)))
    return answers


def test_openapi_offers_it(seen: dict[str, Any]) -> None:
    enum = seen["/openapi.json"]["components"]["schemas"]["MatmulOptions"]["properties"]["kernel"]["enum"]
    assert enum.index("toy") == enum.index("naive") - 1


def test_the_catalogue_shows_it(seen: dict[str, Any]) -> None:
    listed = [kernel["name"] for kernel in seen["/v1/kernels"]["kernels"]]
    assert listed.index("toy") == listed.index("naive") - 1
    shown = seen["/v1/kernels/toy"]
    assert (shown["config_count"], shown["defaults"][-1]["config"]) == (2, {"width": 64})
    assert seen["source"] == SOURCE


def test_the_pages_show_it(seen: dict[str, Any]) -> None:
    assert "Kernels of the catalogue that no other family lists." in seen["/ui/kernels"]
    assert all("A toy that is not to be kept." in seen[path] for path in ("/ui/kernels", "/ui/kernels/toy"))


def test_its_resources_are_shown(seen: dict[str, Any]) -> None:
    resources = {(each["dtype"], each["config"]["width"]): each for each in seen["/v1/kernels/toy"]["resources"]}
    assert {dtype for dtype, _ in resources} == {"float32", "int32"}
    assert resources["float32", 32]["architectures"]["sm_75"]["registers"] > 0
    assert resources["int32", 64]["architectures"].keys() == resources["float32", 32]["architectures"].keys()


def test_its_config_is_checked(seen: dict[str, Any]) -> None:
    assert seen["refused"]["detail"] == "width=33 is not allowed for toy; allowed values: 32, 64."


def test_the_docs_tell_of_it(copy: Path) -> None:
    compiler()
    assert "toy: traced" in run(copy, "-m", "tools.kernels.access", "toy")
    told = run(copy, "-m", "tools.docs.generate")
    assert "docs/kernels.md written" in told and "static/kernels/toy.svg written" in told
    page = (copy / "docs" / "kernels.md").read_text()
    assert "## `toy`\n\nA toy that is not to be kept." in page
    assert "![What a block, a warp and a thread of toy touch](../service/dashboard/static/kernels/toy.svg)" in page
    assert "a tile of 1 × 64, a step of k at a time" in page
    assert "- **Against `toy`:** " in page  # the next rung's
    assert "toy: memory accesses" in (copy / PICTURES.relative_to(ROOT) / "toy.svg").read_text()
