"""Multiplying and planning a benchmark in a real browser: files dropped on the page, texts that follow the form."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import TIMEOUT_MS
from tests.browser.test_live import state
from tests.integration.dashboard.test_multiply import A, B, tensors
from tools.browser import Tab
from tools.harness.api import ended, from_npy, npy
from tools.stack import Stack, kill_group

HOLDER = """files => {
  const holder = new DataTransfer();
  for (const [name, text] of files)
    holder.items.add(new File([Uint8Array.from(atob(text), one => one.charCodeAt(0))], name));
  return holder;
}"""

TWICE = """async () => {
  const form = document.querySelector("form[data-draft]");
  const sent = [1, 2].map(() => fetch(form.action, {method: "POST", body: new FormData(form)}));
  return (await Promise.all(sent)).map(reply => reply.url);
}"""


@pytest.fixture
def plain(browser: Browser, stack: Stack) -> Iterator[Tab]:
    """A browser without scripts."""
    with browser.new_context(locale="en-GB", java_script_enabled=False) as context:
        context.set_default_timeout(TIMEOUT_MS)
        yield Tab(context.new_page(), stack.url)


def drop(page: Page, target: str, **files: bytes) -> None:
    """As if they were dragged in from the desktop; `a_npy` is the file a.npy."""
    named = [[name.replace("_", "."), base64.b64encode(data).decode()] for name, data in files.items()]
    page.dispatch_event(target, "dragover", {"dataTransfer": page.evaluate_handle(HOLDER, named)})
    page.dispatch_event(target, "drop", {"dataTransfer": page.evaluate_handle(HOLDER, named)})


def downloaded(page: Page, directory: Path) -> Path:
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the product").click()
    assert download.value.suggested_filename == "c.npy"
    path = directory / "c.npy"
    download.value.save_as(path)
    return path


def job_count(http: httpx.Client) -> int:
    return len(http.get("/v1/jobs", params={"limit": 200}).json()["jobs"])


def test_two_dropped_files_are_multiplied(tab: Tab, tmp_path: Path) -> None:
    page = tab.open("/ui/multiply?source=files")
    drop(page, "h1", b_npy=npy(B), a_npy=npy(A))
    expect(page.locator("#texts-now")).to_contain_text("-F a=@a.npy")
    page.get_by_role("button", name="Multiply").click()
    expect(state(page)).to_have_text("succeeded")
    expect(page.get_by_role("heading", name="Where the time went")).to_be_visible()
    expect(page.locator(".heat rect")).to_have_count(A.shape[0] * B.shape[1])
    assert np.array_equal(from_npy(downloaded(page, tmp_path).read_bytes()), A @ B)


def test_shapes_are_told_and_checked_before_anything_is_sent(tab: Tab, tmp_path: Path, http: httpx.Client) -> None:
    before = job_count(http)
    page = tab.open("/ui/multiply?source=files")
    wide, tall = tmp_path / "a.npy", tmp_path / "b.npy"
    wide.write_bytes(npy(np.ones((3, 4), np.float32)))
    tall.write_bytes(npy(np.ones((5, 2), np.float32)))
    page.get_by_label("A, or all in one safetensors file").set_input_files([tall, wide])  # by their names
    told = page.locator("#shapes-told")
    expect(told).to_have_text("A is 3×4 and B is 5×2: A's columns must equal B's rows, 4 and 5.")
    page.get_by_role("button", name="Multiply").click()
    assert job_count(http) == before, "it is not sent, and the files stay"
    assert page.locator("#file_b").evaluate("field => field.files[0].name") == "b.npy"
    mended = tmp_path / "mended.npy"
    mended.write_bytes(npy(np.ones((4, 2), np.float32)))
    page.get_by_label("B", exact=True).set_input_files(mended)
    expect(told).to_contain_text("A: 3×4 <f4, B: 4×2 <f4;")
    page.get_by_text("Advanced").click()
    page.get_by_label("A transposed").check()
    expect(told).to_contain_text("A is 4×3 and B is 4×2")
    page.get_by_label("A transposed").uncheck()
    page.get_by_role("button", name="Multiply").click()
    expect(state(page)).to_have_text("succeeded")


def test_a_dropped_safetensors_file_is_multiplied(tab: Tab, tmp_path: Path) -> None:
    page = tab.open("/ui/multiply?source=files")
    drop(page, "form", ab_safetensors=tensors(a=A, b=B))
    expect(page.locator("#texts-now")).to_contain_text("--data-binary @ab.safetensors")
    page.get_by_role("button", name="Multiply").click()
    expect(state(page)).to_have_text("succeeded")
    assert np.array_equal(from_npy(downloaded(page, tmp_path).read_bytes()), A @ B)


def test_a_file_goes_where_it_is_dropped(tab: Tab) -> None:
    page = tab.open("/ui/multiply?source=files")
    drop(page, "#file_b", second_npy=npy(B))
    drop(page, "h1", first_npy=npy(A))
    names = [page.locator(f"#file_{name}").evaluate("field => field.files[0].name") for name in "ab"]
    assert names == ["first.npy", "second.npy"]


def test_files_are_chosen_without_scripts(plain: Tab, http: httpx.Client) -> None:
    page = plain.open("/ui/multiply?source=files")
    expect(page.get_by_text("Drop them here")).to_be_hidden()
    for name, array in (("a", A), ("b", B)):
        page.set_input_files(f"#file_{name}", {"name": f"{name}.npy", "mimeType": "", "buffer": npy(array)})
    page.get_by_role("button", name="Multiply").click()
    page.wait_for_url("**/ui/jobs/job_*")  # until it has loaded: what is on its way cannot be loaded again
    job_id = page.url.rpartition("/")[2]
    ended(http, job_id)
    page.reload()
    expect(state(page)).to_have_text("succeeded")


def test_a_double_click_multiplies_once(tab: Tab, http: httpx.Client) -> None:
    """The browser drops a second submission that comes in time; one that does not is sent here by hand."""
    before = job_count(http)
    page = tab.open("/ui/multiply?m=3&n=3&k=3")
    places = page.evaluate(TWICE)
    assert len(set(places)) == 1 and "/ui/jobs/job_" in places[0]
    page.get_by_role("button", name="Multiply").dblclick()
    expect(state(page)).to_have_text("succeeded")
    assert page.url == places[0]
    assert job_count(http) == before + 1


def test_the_texts_follow_the_form(tab: Tab, http: httpx.Client) -> None:
    before = job_count(http)
    page = tab.open("/ui/multiply")
    page.get_by_label("m: rows of A").fill("77")
    expect(page.locator("#texts-now pre").first).to_contain_text("[77, 512]")
    page.get_by_label("m: rows of A").fill("many")
    expect(page.locator("#texts-now")).to_contain_text("m must be a whole number")
    page.get_by_label("m: rows of A").fill("78")
    expect(page.locator("#texts-now pre").last).to_contain_text("[78, 512]")
    assert job_count(http) == before


def test_a_benchmark_is_counted_while_it_is_typed(tab: Tab, http: httpx.Client) -> None:
    before = job_count(http)
    page = tab.open("/ui/benchmarks/new")
    told = page.locator("#count-now")
    page.get_by_label("cpu_blas").check()
    page.get_by_label("Sizes: 256").fill("64, 96, 128")
    expect(told).to_contain_text("Cases\n3", use_inner_text=True)
    told.get_by_text("As curl").click()
    page.get_by_label("Sizes: 256").fill("64, big")
    expect(told).to_have_text(
        "shapes: big is no size; write 256, or 256:4096:256 or 256:4096:5log2 for a range, or 16×4096×4096 for m×n×k."
    )
    page.get_by_label("Sizes: 256").fill("64")
    expect(told).to_contain_text("Cases\n1", use_inner_text=True)
    page.get_by_label("Sizes from").fill("128")
    page.get_by_label("to", exact=True).fill("256")
    page.get_by_label("count", exact=True).fill("2")
    page.get_by_role("button", name="Add these sizes").click()
    expect(page.get_by_label("Sizes: 256")).to_have_value("64, 128:256:2log2")
    expect(told).to_contain_text("Cases\n3", use_inner_text=True)
    assert job_count(http) == before


def test_a_form_outlives_the_api(tab: Tab, stack: Stack) -> None:
    """What is typed stays, and the texts follow again once it is back."""
    assert stack.api is not None
    page = tab.open("/ui/multiply")
    tab.may_lose_answers = True
    kill_group(stack.api)
    with page.expect_event("requestfailed"):
        page.get_by_label("m: rows of A").fill("5")
    expect(page.locator("#texts-now pre").first).to_contain_text("[512, 512]")
    stack.start_api()
    stack.wait_until_ready()
    page.get_by_label("n: columns of B").fill("6")
    expect(page.locator("#texts-now pre").first).to_contain_text("[5, 512]")
    tab.may_lose_answers = False
    page.get_by_role("button", name="Multiply").click()
    expect(state(page)).to_have_text("succeeded")
