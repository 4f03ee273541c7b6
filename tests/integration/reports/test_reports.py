"""Reports over HTTP: by Accept and by name, with text of one's own, of benchmarks and of published runs."""

from __future__ import annotations

import sys
from io import BytesIO
from urllib.parse import urlencode
from zipfile import ZipFile

import httpx
import pytest

from analysis.report.options import MAX_LINE, MAX_TEXT
from tests.integration.api.test_benchmark_results import done
from tests.integration.api.test_jobs import problem
from tools.harness.api import Api

PUBLISHED = "/v1/published/h200_quick/report"
SMALL = {"sections": "summary,conclusion"}


@pytest.fixture
def path(api: Api, quiet: httpx.Client) -> str:
    return f"/v1/benchmarks/{done(api, quiet)}/report"


@pytest.mark.parametrize(
    ("name", "media_type", "start"),
    [
        ("html", "text/html; charset=utf-8", b"<!DOCTYPE html>"),
        ("pdf", "application/pdf", b"%PDF-"),
        ("markdown", "text/markdown; charset=utf-8", b"# "),
        ("zip", "application/zip", b"PK"),
    ],
)
def test_each_form_by_accept_and_by_name(
    quiet: httpx.Client, path: str, name: str, media_type: str, start: bytes
) -> None:
    for address in (path, PUBLISHED):
        by_name = quiet.get(address, params=SMALL | {"format": name})
        assert (by_name.status_code, by_name.headers["content-type"]) == (200, media_type), by_name.text
        assert by_name.content.startswith(start)
        by_accept = quiet.get(address, params=SMALL, headers={"accept": media_type.partition(";")[0]})
        assert by_accept.content == by_name.content
        disposition = "inline" if name == "html" else "attachment"
        assert by_name.headers["content-disposition"].startswith(f'{disposition}; filename="report_')
        again = quiet.get(address, params=SMALL | {"format": name}, headers={"if-none-match": by_name.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_words_of_ones_own_make_another_report(quiet: httpx.Client, path: str) -> None:
    mine = {
        "title": "My <lab>",
        "author": "A. Student",
        "question": "Why?",
        "text": "One.\n\nTwo.",
        "conclusion": "So.",
    }
    page = quiet.get(path, params=mine)
    for words in ("<h1>My &lt;lab&gt;</h1>", "<dd>A. Student</dd>", "<dd>Why?</dd>", "<p>Two.</p>", "<p>So.</p>"):
        assert words in page.text, words
    assert page.headers["etag"] != quiet.get(path).headers["etag"]
    assert "<h1>Three sizes" in quiet.get(path, params={"title": " ", "author": ""}).text  # fields left empty


def test_sections_by_themselves_or_with_commas(quiet: httpx.Client, path: str) -> None:
    queries = ("sections=conclusion,summary", "sections=summary&sections=conclusion")
    pages = [quiet.get(f"{path}?{query}").text for query in queries]
    assert pages[0] == pages[1] and 'id="section-summary"' in pages[0] and 'id="section-method"' not in pages[0]
    refused = problem(quiet.get(path, params={"sections": "summary,epilog"}), 422, "invalid_request")
    assert refused["field"] == "sections" and "'epilog'" in refused["detail"] and "appendix" in refused["detail"]


@pytest.mark.parametrize(("name", "most"), [("title", MAX_LINE), ("author", MAX_LINE), ("text", MAX_TEXT)])
def test_words_are_bounded(quiet: httpx.Client, path: str, name: str, most: int) -> None:
    assert quiet.get(f"{path}?{urlencode({name: 'ä' * most} | SMALL)}").status_code == 200
    assert problem(quiet.get(path, params={name: "x" * (most + 1)}), 422, "invalid_request")["field"] == name


def test_a_published_run_has_its_pictures_in_a_zip(quiet: httpx.Client) -> None:
    bundle = ZipFile(BytesIO(quiet.get(PUBLISHED, params={"format": "zip"}).content))
    assert "report.md" in bundle.namelist() and "images/who-wins.svg" in bundle.namelist()
    assert "NVIDIA H200" in bundle.read("report.md").decode()


def test_an_unknown_published_run(quiet: httpx.Client) -> None:
    assert problem(quiet.get("/v1/published/nope/report"), 404, "not_found")["field"] == "name"


def test_pdf_needs_an_extra(api: Api, quiet: httpx.Client, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "weasyprint", None)
    refused = quiet.get(path, params={"format": "pdf", "title": "Never made before"})
    assert "install the extra `pdf`" in problem(refused, 501, "extra_missing")["detail"]


# ---- the page ----
def test_the_page_asks_for_what_the_report_takes(quiet: httpx.Client, path: str) -> None:
    for address, back in ((path, path.replace("/v1", "/ui")), (PUBLISHED, "/ui/published/h200_quick/report")):
        page = quiet.get(back)
        assert page.status_code == 200 and f'<form method="get" action="{address}"' in page.text
        assert page.text.count('name="sections"') == 13 and f'maxlength="{MAX_TEXT}"' in page.text
        assert f'href="{back}"' in quiet.get(back.removesuffix("/report")).text
    assert quiet.get("/ui/published/nope/report").status_code == 404


def test_the_page_says_where_pdf_is_missing(quiet: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "disabled" not in quiet.get("/ui/published/h200_quick/report").text
    monkeypatch.setattr("service.dashboard.benchmarks.report.find_spec", lambda _: None)
    page = quiet.get("/ui/published/h200_quick/report").text
    assert 'value="pdf" disabled' in page and "install the extra `pdf`" in page
