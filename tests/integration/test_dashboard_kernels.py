"""`/ui/kernels`: the ladder, and each kernel by itself."""

from __future__ import annotations

import re

import httpx
import pytest

from kernels.catalog import BY_NAME, CATALOG, KERNEL_NAMES
from kernels.kernel import CudaKernel
from kernels.tuned import best_results
from service.dashboard.words import figure
from tests.support.pages import assert_no_dead_links, get


def test_the_ladder_is_in_order(quiet: httpx.Client) -> None:
    page = get(quiet, "/ui/kernels")
    ids = [name for name in page.ids if name in BY_NAME]
    assert ids == list(KERNEL_NAMES)
    for kernel in CATALOG:
        assert " ".join(kernel.summary.replace("`", "").split()) in page.text
    assert "by played" in page.text  # the one live worker, of cpu_blas
    best = max(best_results("naive"), key=lambda best: best.row.gflops)
    assert figure(best.row.gflops) in page.html
    assert_no_dead_links(quiet, page)


@pytest.mark.parametrize("name", KERNEL_NAMES)
def test_a_kernel(quiet: httpx.Client, name: str) -> None:
    kernel, page = BY_NAME[name], get(quiet, f"/ui/kernels/{name}")
    for parameter in kernel.parameters:
        assert f"<code>{parameter.name}</code>" in page.html
        assert ", ".join(map(str, parameter.values)) in page.html
    assert f"/ui/multiply?kernel={name}" in page.links
    assert f"/ui/benchmarks/new?kernels={name}" in page.links
    assert page.html.count('<tr><th scope="row">NVIDIA H200') == len(best_results(name))
    if isinstance(kernel, CudaKernel):
        lines = kernel.source_path.read_text().splitlines()
        assert f"L{len(lines)}" in page.ids
        assert f"L{len(lines) + 1}" not in page.ids
        assert f"/v1/kernels/{name}/source" in page.links
    else:
        assert "L1" not in page.ids
        assert "no source of it here" in page.text


def test_links_of_a_kernel_lead_somewhere(quiet: httpx.Client) -> None:
    page = get(quiet, "/ui/kernels/split_k")
    assert "/ui/kernels/pipelined" in page.links
    own = [link for link in page.links if link.startswith("?")]
    assert len(own) > 5
    for link in own:
        get(quiet, f"/ui/kernels/split_k{link.partition('#')[0]}")
    for link in page.links:
        if link.startswith(("/ui/kernels", "/ui/multiply", "/v1")):
            assert quiet.get(link).status_code == 200, link


def test_what_a_config_takes(quiet: httpx.Client) -> None:
    """1,024 threads of up to 32 registers fill a multiprocessor of 2,048, and one of 1,024 as well."""
    for arch, blocks in (("sm_90", 2), ("sm_75", 1)):
        page = get(quiet, f"/ui/kernels/shared_tiled_prefetch?arch={arch}")
        row = re.search(r'tile 32, padded 0</th><td class="number">1024<.*?</tr>', page.html)
        assert row is not None
        assert f">{blocks}</td>" in row[0]
        assert "100.0 %" in row[0]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/ui/kernels/nope", 404, "There is no kernel of that name"),
        ("/ui/kernels/naive?arch=<b>", 422, "There is no architecture '<b>' here"),
        ("/ui/kernels/pipelined?dtype=int8", 422, "pipelined does not take 'int8'; it takes float32"),
    ],
)
def test_what_is_not_there(quiet: httpx.Client, path: str, status: int, words: str) -> None:
    assert get(quiet, path, status).alerts[0].startswith(words)


def test_rules_speak_of_every_config() -> None:
    rules = [constraint.rule for kernel in CATALOG for constraint in kernel.constraints]
    assert "block_m × block_n must be between 32 and 1024 threads." in rules
    assert not [rule for rule in rules if "{" in rule or " = " in rule]
