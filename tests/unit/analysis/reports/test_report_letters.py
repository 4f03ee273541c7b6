"""Letters that are not seen do not turn a report's figures around, and letters of every script stay."""

from __future__ import annotations

import unicodedata

import pytest

from analysis.report.options import ReportOptions
from analysis.report.render import html_report, markdown_report
from analysis.report.subject import Subject, of_results
from analysis.results import collect
from tests.unit.analysis.findings import DOCUMENT, job, kept, record, spec

TURNED = "Model \u202e8192\u2066\u200f\x00\x1b X"  # to a reader: Model 2918 X


def subject_on(device: str, monkeypatch: pytest.MonkeyPatch) -> Subject:
    monkeypatch.setitem(DOCUMENT, "device", DOCUMENT["device"] | {"name": device})
    wrong = record(DOCUMENT["records"][0], status="incorrect", reason=device, kernel_ms=None, gflops=None)
    return of_results(collect(job(spec(title=device)), kept([wrong, record(DOCUMENT["records"][1])])))


def test_a_name_turns_no_figures_around(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = subject_on(TURNED, monkeypatch)
    options = ReportOptions(author=TURNED, text=TURNED, sections=("summary", "introduction", "correctness"))
    for report in (html_report(subject, options), markdown_report(subject, options)):
        unseen = {letter for letter in report if unicodedata.category(letter) in ("Cc", "Cf")}
        assert unseen <= {"\n"} and "Model 8192 X" in report


def test_names_in_other_scripts_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "قياس المصفوفات · 행렬 · 👩\u200d🔬"
    assert name in html_report(subject_on(name, monkeypatch), ReportOptions(sections=("summary",)))
