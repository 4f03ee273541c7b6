"""The page of a new benchmark: presets, fields, counting, starting, cloning; without scripts."""

from __future__ import annotations

import json
import re
import shlex
from html import unescape
from typing import Any

import httpx
import pytest

from jobs.benchmarks.presets import PRESETS
from jobs.benchmarks.spec import BenchmarkSpec
from jobs.errors import InvalidRequest
from service.dashboard.benchmarks.fields import Typed, document, shapes_of, typed, typed_document, typed_spec
from tests.integration.api.test_benchmark_results import new
from tests.integration.dashboard.test_keys import ALICE, BOB, Guarded, guarded
from tests.support.http.pages import Page, assert_no_dead_links, get
from tools.harness.api import Api

__all__ = ["guarded"]

NEW = "/ui/benchmarks/new"
ASKED = {"kernels": "cpu_blas", "shapes": "64:256:64, 16×32×64", "dtypes": ["float32", "float64"], "rounds": "3"}


def started(reply: httpx.Response) -> str:
    """Id of the job that a form started."""
    assert reply.status_code == 303, reply.text[-2000:]
    return reply.headers["location"].removeprefix("/ui/jobs/")


def spec_of(api: Api, job_id: str) -> BenchmarkSpec:
    spec = api.ledger.get(job_id).record.request
    assert isinstance(spec, BenchmarkSpec)
    return spec


# ---- the page ----
def test_presets_are_listed_with_what_they_come_to(browser: httpx.Client) -> None:
    page = get(browser, NEW)
    for preset in browser.get("/v1/benchmarks").json()["presets"]:
        assert preset["summary"] in page.text
        assert (preset["redoes"] or "") in page.text
        assert f"{NEW}?preset={preset['name']}#form" in page.links
    assert_no_dead_links(browser, page)


def test_a_preset_is_chosen_by_its_address(browser: httpx.Client) -> None:
    assert "<option selected>quick</option>" in get(browser, f"{NEW}?preset=quick").html


def test_count_and_estimate_without_a_job(api: Api, browser: httpx.Client) -> None:
    before = api.ledger.counts()
    page = Page(browser.get(NEW, params=ASKED | {"count": "1"}))
    told = browser.post("/v1/benchmarks?dry_run=true", json=curl_body(page)).json()
    assert told["cases"] == 10
    assert f"Cases {told['cases']} Measurements {told['measurements']} " in page.text
    assert "Device A CPU" in page.text and '"rounds": 3' in page.text
    assert api.ledger.counts() == before
    assert 'value="64:256:64, 16×32×64"' in page.html


def curl_body(page: Page) -> Any:
    words = shlex.split(page.text.split("As curl ")[1].split(" The whole spec ")[0].replace("\\ ", " "))
    assert words[0] == "curl" and words[1].endswith("/v1/benchmarks")
    return json.loads(words[words.index("-d") + 1])


def test_what_is_typed_is_shown_as_text(browser: httpx.Client) -> None:
    nasty = '"><script>alert(1)</script>'
    page = Page(browser.get(NEW, params={name: nasty for name in Typed.__dataclass_fields__}))
    assert nasty not in page.html and "&lt;script&gt;" in page.html


WRONG = [
    ({"shapes": "12, big"}, 422, "shapes: big is no size"),
    ({"kernels": ["ladder", "naive"], "shapes": "64"}, 422, "choose ladder alone"),
    ({"rounds": "two", "shapes": "64"}, 422, "rounds must be a whole number"),
    ({"energy": "perhaps", "shapes": "64"}, 422, "energy must be true or false"),
    ({"spec": "{"}, 400, "JSON"),
    ({"spec": "[1]"}, 422, "must be a JSON object"),
    ({"preset": "no-such"}, 422, "There is no preset 'no-such'"),
    ({"kernels": "no_such", "shapes": "64"}, 422, "no kernel 'no_such'"),
    ({"shapes": "64", "kernels": "cpu_blas", "device": "An abacus"}, 409, "No live worker runs on An abacus"),
    ({"title": "No sizes"}, 422, "shapes: there are none; name at least one size"),
]


@pytest.mark.parametrize(("fields", "status", "sentence"), WRONG)
def test_a_wrong_form_is_shown_again(
    api: Api, browser: httpx.Client, fields: dict[str, Any], status: int, sentence: str
) -> None:
    before = api.ledger.counts()
    for reply in (browser.get(NEW, params=fields | {"count": "1"}), browser.post("/ui/benchmarks", data=fields)):
        page = Page(reply, status)
        assert [sentence in alert for alert in page.alerts] == [True], page.alerts
        for value in fields.values():
            assert (value if isinstance(value, str) else value[0]) in page.html
    assert api.ledger.counts() == before


def test_what_is_being_typed_is_no_error(browser: httpx.Client) -> None:
    page = get(browser, f"{NEW}?draft=1&count=1&shapes=12,+big")
    assert "shapes: big is no size" in page.text


def test_axes_are_added_to_what_is_there(browser: httpx.Client) -> None:
    sizes = {"axis_from": "64", "axis_to": "256", "axis_count": "3", "axis_scale": "log2", "add": "sizes"}
    page = Page(browser.get(NEW, params={**ASKED, **sizes}))
    assert 'value="64:256:64, 16×32×64, 64:256:3log2"' in page.html and "Cases 10 " in page.text
    grid = {"axis_parameter": "block_m", "axis_values": "64, 128", "add": "grid"}
    spec = {"kernels": ["cpu_blas"], "configs": {"grid": {"block_n": [32]}}}
    page = Page(browser.get(NEW, params=grid | {"shapes": "64", "spec": json.dumps(spec)}), 422)
    assert page.alerts == ["cpu_blas has no parameter 'block_n'; it has: none."]
    (kept,) = re.findall(r'<textarea id="spec"[^>]*>([^<]*)</textarea>', page.html)
    assert json.loads(unescape(kept))["configs"] == {"grid": {"block_n": [32], "block_m": [64, 128]}}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"add": "sizes"}, "An axis of sizes needs"),
        ({"add": "sizes", "axis_from": "a", "axis_to": "2", "axis_count": "3"}, "shapes: a:2:3log2 is no size"),
        ({"add": "grid", "axis_parameter": "block_m", "axis_values": "a"}, "An axis of configs needs"),
        ({"add": "grid", "axis_parameter": "nothing", "axis_values": "1"}, "An axis of configs needs"),
    ],
)
def test_an_axis_that_is_none(browser: httpx.Client, fields: dict[str, str], sentence: str) -> None:
    page = Page(browser.get(NEW, params={"shapes": "64"} | fields), 422)
    assert sentence in page.alerts[0] and 'name="shapes" value="64"' in page.html


# ---- starting ----
def test_a_form_starts_what_the_api_would(api: Api, browser: httpx.Client) -> None:
    spec = {"timing": {"min_samples": 7}, "tags": ["mine"]}
    fields = ASKED | {"title": "A form", "transfers": "true", "cache": "warm", "spec": json.dumps(spec)}
    made = spec_of(api, started(browser.post("/ui/benchmarks", data=fields)))
    assert (made.title, made.kernels, made.dtypes, made.tags) == (
        "A form",
        ("cpu_blas",),
        ("float32", "float64"),
        ("mine",),
    )
    assert (made.timing.rounds, made.timing.cache, made.timing.min_samples) == (3, "warm", 7)
    assert made.transfers.enabled and not made.energy.enabled
    assert [size.model_dump() if not isinstance(size, int) else size for size in made.shapes] == [
        {"start": 64, "stop": 256, "step": 64, "count": None, "scale": "linear"},
        {"m": 16, "n": 32, "k": 64},
    ]


def test_a_preset_alone_is_enough(api: Api, browser: httpx.Client) -> None:
    made = spec_of(api, started(browser.post("/ui/benchmarks", data={"preset": "quick", "device": "A CPU"})))
    assert (made.preset, made.device, made.kernels) == ("quick", "A CPU", "ladder")


def test_a_form_of_another_site_starts_nothing(api: Api, browser: httpx.Client) -> None:
    before = api.ledger.counts()
    refused = browser.post("/ui/benchmarks", data=ASKED, headers={"sec-fetch-site": "cross-site"})
    assert refused.status_code == 403
    assert browser.post("/ui/benchmarks", json=ASKED).status_code == 415
    assert browser.post("/ui/benchmarks", data={"spec": " " * (2 << 20)}).status_code == 413
    assert api.ledger.counts() == before


# ---- cloning ----
def test_a_clone_asks_for_the_same(api: Api, browser: httpx.Client) -> None:
    spec = {
        "kernels": ["cpu_blas"],
        "shapes": [{"start": 64, "stop": 256, "count": 3, "scale": "log2"}],
        "verify": "full",
    }
    page = get(browser, f"{NEW}?clone={new(browser, **spec)}")
    assert 'value="Three sizes"' in page.html and 'value="64:256:3log2"' in page.html
    assert "<option selected>full</option>" in page.html
    assert "There is no job" in get(browser, f"{NEW}?clone=job_1", 404).alerts[0]


def parsed(form: Typed) -> BenchmarkSpec:
    fields = document(form)
    name = fields.get("preset")
    return BenchmarkSpec.model_validate_json(json.dumps(PRESETS[name].fields(fields) if name else fields))


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("over", [{}, {"timing": {"rounds": 2, "cache": "warm"}, "transfers": {"enabled": False}}])
def test_every_preset_survives_its_clone(name: str, over: dict[str, Any]) -> None:
    spec = BenchmarkSpec.model_validate_json(json.dumps(PRESETS[name].fields(over)))
    again = parsed(typed_spec(spec))
    assert again.model_dump(exclude={"preset"}) == spec.model_dump(exclude={"preset"})
    assert typed_spec(BenchmarkSpec(**PRESETS[name].fields({"device": "gpu"}))) == Typed(preset=name, device="gpu")


def test_fields_and_documents_lead_to_each_other() -> None:
    whole = {
        "kernels": [{"kernel": "naive", "configs": "all"}, "cublas"],
        "shapes": [64, {"m": 1, "n": 2, "k": 3}],
        "dtypes": ["float64"],
        "timing": {"rounds": 1, "warmup_ms": 1.5},
        "energy": {"enabled": True, "window_s": 1.0},
        "fresh_process": True,
        "baseline": "none",
    }
    form = typed_document(whole)
    assert document(form) == whole
    assert (form.shapes, form.rounds, form.energy, form.kernels) == ("64, 1×2×3", "1", "true", ())
    assert document(typed([("kernels", "naive"), ("spec", '{"kernels": "all"}'), ("other", "x")])) == {"kernels": "all"}


@pytest.mark.parametrize("text", ["16 x 32x64;64", "16×32×64 , 64", "16*32*64\n64"])
def test_sizes_as_people_write_them(text: str) -> None:
    assert shapes_of(text) == [{"m": 16, "n": 32, "k": 64}, 64]
    assert shapes_of("64 : 256 : 3log2, 1:9:5lin") == [
        {"start": 64, "stop": 256, "count": 3, "scale": "log2"},
        {"start": 1, "stop": 9, "count": 5, "scale": "linear"},
    ]
    with pytest.raises(InvalidRequest):
        shapes_of(text + ", 1:2")


# ---- keys ----
def test_nobody_clones_anothers(guarded: Guarded) -> None:
    with guarded.browser(ALICE.key) as alice, guarded.browser(BOB.key) as bob, guarded.browser() as nobody:
        mine = started(alice.post("/ui/benchmarks", data={"preset": "quick"}))
        get(alice, f"{NEW}?clone={mine}")
        get(bob, f"{NEW}?clone={mine}", 404)
        assert nobody.post("/ui/benchmarks", data={"preset": "quick"}).headers["location"].startswith("/ui/sign-in")
        counted = get(alice, f"{NEW}?preset=quick&count=1")
        assert "authorization: Bearer $MATMUL_API_KEY" in counted.text
        assert sum(guarded.api.ledger.counts().values()) == 1
