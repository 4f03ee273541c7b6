"""The parsers of what strangers send, on the inputs that fuzzing kept: no error but ours comes out, and what is read is
what its encoder writes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import pytest

from jobs.errors import InvalidRequest, StoreUnavailable
from tests.fuzz.__main__ import shares
from tests.fuzz.corpus import MAX_TARGET_BYTES, dictionary, kept
from tests.fuzz.table import TARGETS
from tests.fuzz.target import Target, same_however_cut, takes


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_nothing_breaks_a_parser(target: Target) -> None:
    inputs = [*kept(target.name)]
    assert sum(map(len, inputs)) <= MAX_TARGET_BYTES
    for seed in target.seeds():
        assert takes(target, seed), seed
    for data in (b"", *inputs):
        takes(target, data)


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (InvalidRequest("It is so."), None),
        (ValueError("It is so."), ValueError),
        (StoreUnavailable("It is so."), AssertionError),
        (InvalidRequest("no sentence"), AssertionError),
        (InvalidRequest("\ud800."), TypeError),
    ],
)
def test_what_would_be_found(error: Exception, found: type[Exception] | None) -> None:
    def run(data: bytes) -> None:
        raise error

    target = Target("raising", run, lambda: ())
    with pytest.raises(found) if found else nullcontext():
        assert not takes(target, b"")


def test_bytes_that_mean_another_thing_in_parts_would_be_found() -> None:
    assert same_however_cut(b"".join, b"x" * 1000) == b"x" * 1000
    with pytest.raises(AssertionError):
        same_however_cut(lambda feed: len(list(feed)), b"x" * 1000)


@pytest.mark.parametrize(("names", "processes"), [(["a"], 1), (["a", "b", "c"], 2), (["a", "b"], 5)])
def test_all_targets_are_fuzzed_for_the_same_time(names: Sequence[str], processes: int) -> None:
    dealt = shares(names, runs=0, processes=processes, seconds=100.0, seed=3)
    assert {share.target for share in dealt} == {*names}
    assert len({share.seed for share in dealt}) == len(dealt)
    assert len(dealt) % processes == 0
    assert sum(share.seconds for share in dealt) <= 100.0 * processes


def test_words_are_written_as_libfuzzer_reads_them() -> None:
    assert dictionary([b'"a\n']) == '"\\x22\\x61\\x0a"\n'
