"""`/ui/kernels`: the ladder, and each kernel by itself."""

from __future__ import annotations

import re
from html import unescape
from itertools import pairwise

import httpx
import pytest

from kernels.catalog import BY_NAME, CATALOG, KERNEL_NAMES
from kernels.families import FAMILIES, neighbours, rung_before
from kernels.model.kernel import CudaKernel
from kernels.model.sources import source_files
from kernels.selection.tuned import best_results
from service.dashboard.kernels.exercise import QUESTIONS, exercise_of
from service.dashboard.kernels.story import changes_of, headers_of, picture_of, source_of
from service.dashboard.words import figure
from tests.support.http.pages import assert_no_dead_links, get


def test_the_ladder_is_in_order(quiet: httpx.Client) -> None:
    page = get(quiet, "/ui/kernels")
    ids = [name for name in page.ids if name in BY_NAME]
    assert ids == [name for family in FAMILIES for name in family.names]
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
    assert page.html.count('<tr><th scope="row">NVIDIA H') == len(best_results(name))
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
    assert neighbours("split_k") == (None, "cluster_split_k") and "/ui/kernels/cluster_split_k" in page.links
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


SOURCES = [kernel for kernel in CATALOG if isinstance(kernel, CudaKernel)]


@pytest.mark.parametrize("kernel", SOURCES, ids=lambda kernel: kernel.name)
def test_highlighting_changes_no_character(kernel: CudaKernel) -> None:
    lines = [unescape(re.sub(r"<[^>]+>", "", line)) for line in source_of(kernel.name)]
    assert lines == kernel.source_path.read_text().splitlines()
    assert '<span class="keyword">' in "".join(source_of(kernel.name))


def test_changes_lead_from_one_source_to_the_next() -> None:
    """What stays and what goes is the one; what stays and what comes is the other."""
    assert changes_of("naive_uncoalesced") is None and changes_of("cublas") is None and changes_of("split_k") is None
    ladder = [BY_NAME[name] for family in FAMILIES if family.steps for name in family.names]
    assert len(ladder) > 10
    for before, after in pairwise(ladder):
        assert rung_before(after.name) == before.name
        changes = changes_of(after.name)
        assert changes is not None and changes.before == before.name
        lines = [line for place in changes.places for line in place]
        old, new = len(source_of(before.name)), len(source_of(after.name))
        assert new - old == changes.count("added") - changes.count("removed")
        for line in lines:
            name = before.name if line.kind == "removed" else after.name
            assert line.text == source_of(name)[line.number - 1]


def test_a_page_shows_the_picture_and_the_changes(quiet: httpx.Client) -> None:
    page, picture, changes = get(quiet, "/ui/kernels/naive"), picture_of("naive"), changes_of("naive")
    assert picture is not None and changes is not None
    assert page.images == [picture.address]
    assert quiet.get(picture.address).headers["content-type"] == "image/svg+xml"
    assert unescape(picture.description) in page.text
    assert page.html.count("<ins ") == changes.count("added") > 0
    assert page.html.count("<del ") == changes.count("removed") > 0
    assert picture_of("cublas") is None


def test_what_a_source_includes_is_shown_as_well(quiet: httpx.Client) -> None:
    names = re.findall(r'#include "([^"]+)"', source_files()["vectorized.cu"].read_text())
    page, headers = get(quiet, "/ui/kernels/vectorized"), headers_of("vectorized")
    assert names == ["tiles.cuh"] and set(names) < headers.keys()  # what these include in turn comes too
    for name, lines in headers.items():
        assert f"<summary>{name}, which it includes</summary>" in page.html
        assert len(lines) == len(source_files()[name].read_text().splitlines())
    assert headers_of("cublas") == {}


def test_rules_speak_of_every_config() -> None:
    rules = [constraint.rule for kernel in CATALOG for constraint in kernel.constraints]
    assert "block_m × block_n must be between 32 and 1024 threads." in rules
    assert not [rule for rule in rules if "{" in rule or " = " in rule]


def test_only_rungs_are_held_against_the_one_before(quiet: httpx.Client) -> None:
    page = get(quiet, "/ui/kernels")
    tables = page.html.split("<table>")[1:]
    assert ["× rung before</th>" in table for table in tables] == [family.steps for family in FAMILIES]


def test_a_kernel_that_nobody_serves_says_so_and_leads_on(quiet: httpx.Client) -> None:
    page = get(quiet, "/ui/kernels/naive")
    assert "No live worker serves it: it needs a GPU." in page.text and "/ui/published/h200_ladder" in page.links
    assert "No live worker serves it" not in get(quiet, "/ui/kernels/cpu_blas").text


def test_a_rung_of_one_s_own_has_no_exercise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert exercise_of("naive") is not None
    monkeypatch.delitem(QUESTIONS, "naive")
    assert exercise_of("naive") is None


def test_a_rung_shows_its_way_its_instructions_and_an_exercise(quiet: httpx.Client) -> None:
    page = get(quiet, "/ui/kernels/vectorized")
    steps = page.html.split('<ol class="steps">')[1].split("</ol>")[0]
    assert steps.count("<li>") == steps.count("<svg") >= 5
    assert re.search(
        r"<code>LDS.128</code></th><td class=\"number\">[1-9]\d*</td><td class=\"number\">0</td>", page.html
    )
    assert "/ui/benchmarks/new?kernels=vectorized&kernels=warp_tiled&kernels=cublas" in page.links
    assert quiet.get("/ui/benchmarks/new?kernels=vectorized&kernels=warp_tiled").status_code == 200
    sass, ptx = (get(quiet, f"/ui/kernels/vectorized/assembly?form={form}") for form in ("sass", "ptx"))
    assert "FFMA R" in sass.text and ".visible .entry vectorized(" in ptx.text
    text = quiet.get("/v1/kernels/vectorized/assembly?form=ptx").text
    assert text.startswith(".version")
    assert "There is no form 'hex'" in get(quiet, "/ui/kernels/vectorized/assembly?form=hex", 422).alerts[0]
    assert "it is a library's" in get(quiet, "/ui/kernels/cublas/assembly").text
    counted = get(quiet, "/ui/kernels/hopper_fp8/assembly")
    assert "QGMMA" in counted.text and "Its text does not ship" in counted.text
