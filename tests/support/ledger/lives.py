"""What random lives of jobs are made of."""

from __future__ import annotations

from hypothesis import strategies as st

from jobs.ledger.interface import JobFilter
from jobs.ledger.limits import Beside
from jobs.models import Job
from jobs.requests.job_matrices import JobMatrices
from jobs.states import JobState

OWNERS, QUEUES, KEYS = ("alice", "bob"), ("cpu", "gpu"), ("k1", "k2")
FILTERS = [
    JobFilter(owner="bob"),
    JobFilter(owner="alice"),
    JobFilter(owner="alice", state=JobState.QUEUED),
    JobFilter(owner="bob", state=JobState.FAILED),
    JobFilter(owner="bob", kernel="naive"),
    JobFilter(q="cpu_blas", owner="alice"),
]
AT_RANDOM = 5
pick = st.integers(0, AT_RANDOM)  # which of the apt jobs, counted from the newest; or any job at all
stray = st.sampled_from([0, 0, 0, 0, -1, 1])  # attempts that are not the present one
owners = st.sampled_from(OWNERS)
anyone = st.sampled_from([None, None, *OWNERS])
seconds = st.sampled_from([0.0, 0.5, 1.0, 3.0])
sides = st.sampled_from([8, 9])  # of matrices; up to the first one they are light
beside = st.builds(Beside, st.integers(1, 3), st.integers(0, 2), st.just(8))

in_record = st.builds(
    JobMatrices,
    a=st.sampled_from([None, b"\0" * 16, b"a" * 700]),
    b=st.sampled_from([None, b"\1\xff\r\n" * 4]),
    product_bytes=st.sampled_from([0, 300]),
    ttl_s=st.sampled_from([0.5, 5.0]),
)


def is_waiting(job: Job) -> bool:
    """Whether for another job's product."""
    return job.record.state is JobState.QUEUED and job.record.queue_position is None
