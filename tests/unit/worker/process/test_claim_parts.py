"""How the jobs of a claim are divided into launches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from jobs.ledger.interface import Claimed
from jobs.ledger.submission import BESIDE
from jobs.models import MatmulRequest
from jobs.requests.operands import OperandRef
from kernels.model.numerics import DTYPES, Problem
from worker.check.verify import max_direct_batch
from worker.device.runner import Runner
from worker.product.claim_parts import Part, is_light, parts_of

EXTENT = 300
MATRIX = "a" * 64
SHAPES = ((5, 5, 5), (128, 128, 128), (250, 250, 250), (5, 5, 5, 5), (400, 20, 20))


def claimed(
    shape: tuple[int, ...], dtype: Any = "float32", *, timeout_s: float = 60.0, batch: str = BESIDE, **options: Any
) -> Claimed:
    """`shape`: m, k, n, or the batch before them."""
    *items, m, k, n = shape
    of_a, of_b = (
        OperandRef(source="matrix", matrix=MATRIX, dtype=dtype, shape=(*items, *sizes)) for sizes in ((m, k), (k, n))
    )
    request = MatmulRequest(a=of_a, b=of_b, accuracy=DTYPES[dtype].accuracy, **options)
    job = SimpleNamespace(
        record=SimpleNamespace(request=request), batch=batch, timeout_s=timeout_s, product_in_record=False
    )
    return cast(Claimed, SimpleNamespace(job=job, a=None, b=None, attempt=1))


def runner(max_launch_bytes: int) -> Runner:
    def max_alike(one: Problem) -> int:
        return max_launch_bytes // (one.operand_bytes + one.product_bytes)

    return cast(Runner, SimpleNamespace(max_alike=max_alike))


def place_of(job: Claimed, jobs: Sequence[Claimed]) -> int:
    return next(place for place, each in enumerate(jobs) if each is job)


JOBS = st.lists(
    st.builds(
        claimed,
        st.sampled_from([*[SHAPES[0]] * 4, *SHAPES]),
        st.sampled_from(["float32", "float32", "int8"]),
        timeout_s=st.sampled_from([60.0, 61.0]),
        verify=st.sampled_from(["freivalds", "freivalds", "off"]),
        alpha=st.sampled_from([1.0, 1.0, 2.0]),
    ),
    min_size=1,
    max_size=16,
)


def requests(part: Part) -> list[MatmulRequest]:
    found = [each.job.record.request for each in part.jobs]
    assert all(isinstance(each, MatmulRequest) for each in found)
    return cast(list[MatmulRequest], found)


@given(JOBS, st.sampled_from([1, 1000, 1 << 21, 1 << 30]))
def test_each_job_is_in_one_part_and_those_of_a_launch_are_alike(jobs: Sequence[Claimed], most: int) -> None:
    parts = parts_of(jobs, runner(most), EXTENT)
    assert Counter(id(each) for part in parts for each in part.jobs) == Counter(map(id, jobs))
    for part in parts:
        places = [place_of(each, jobs) for each in part.jobs]
        assert places == sorted(places)
        if part.is_launch and len(part.jobs) > 1:
            asked = requests(part)
            assert all(each == asked[0] for each in asked) and not asked[0].has_epilogue
            assert len({each.job.timeout_s for each in part.jobs}) == 1
            one = asked[0].problem
            assert len(asked) * (one.operand_bytes + one.product_bytes) <= most
            assert not max_direct_batch(one) or len(asked) <= max_direct_batch(one)
            assert all(is_light(each, EXTENT) for each in part.jobs)
    assert sum(not part.is_launch for part in parts) <= 1, "what remains is computed by one thread"


@given(JOBS)
def test_light_jobs_that_are_alike_are_never_apart_where_there_is_room(jobs: Sequence[Claimed]) -> None:
    plain = [each for each in jobs if is_light(each, EXTENT)]
    parts = parts_of(plain, runner(1 << 40), EXTENT) if plain else []
    apart = [request for part in parts if not part.is_launch for request in requests(part)]
    for request in apart:
        of_kind = [each for each in apart if each == request]
        assert request.has_epilogue or len(of_kind) <= 2 or max_direct_batch(request.problem) == 1


def test_what_is_heavy_begins_first() -> None:
    jobs = [claimed((5, 5, 5)), claimed((400, 20, 20)), claimed((5, 5, 5))]
    parts = parts_of(jobs, runner(1 << 30), EXTENT)
    assert [[place_of(each, jobs) for each in part.jobs] for part in parts] == [[1], [0, 2]]
