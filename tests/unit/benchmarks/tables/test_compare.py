"""What docs/performance.md says of runs held against each other, and which runs are published."""

from __future__ import annotations

from collections import Counter

from analysis.result_models import Results
from analysis.results import collect
from benchmarks.publish import _title, has_every_case
from benchmarks.tables.compare import comparisons
from tests.support.recorded import recorded_results
from tests.unit.analysis.findings import job, kept, two_rounds


def results(**environment: str) -> Results:
    found = collect(job(), kept(two_rounds()))
    return found.model_copy(update={"environment": found.environment | environment})


def test_a_second_run_is_told_case_by_case_and_every_pair_is_counted() -> None:
    one, other = results(uuid="GPU-1"), results(uuid="GPU-2")
    text = "\n\n".join(comparisons([("grade", one), ("ladder", one), ("ladder_again", other)]))
    count = len(one.cases)
    assert f"`ladder_again` beside `ladder`: {count} of {count} cases are the same (100%)" in text
    assert "What was not alike: `uuid`." in text
    large = sum(case.n >= 4096 for case in one.cases)
    assert f"| the same card | N from 4096 on | {large} | 0 | 0 | {large} | 0 |" in text
    assert f"| two cards | smaller | {2 * (count - large)} | 0 | 0 | {2 * (count - large)} | 0 |" in text


def test_a_run_called_off_in_its_last_round_has_every_case() -> None:
    whole = recorded_results("tensor_cores")
    assert has_every_case(whole)
    assert not has_every_case(whole.model_copy(update={"records": whole.records[1:]}))


def test_no_two_published_runs_have_the_same_title() -> None:
    given: Counter[str] = Counter()
    run = recorded_results("quick")
    elsewhere = run.model_copy(update={"device": run.device | {"name": "NVIDIA T4"}})
    title, again, other = (_title(one, given) for one in (run, run, elsewhere))
    assert (again, other) == (f"{title}: run 2", f"{title}, on an NVIDIA T4")
