"""Buckets of similar products: a default config is declared, and a measured table kept, for each bucket."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

from kernels.model.numerics import Problem

BucketName = Literal["wide", "tall", "deep", "small", "batched", "medium", "large"]
BUCKET_NAMES: tuple[BucketName, ...] = get_args(BucketName)
SKINNY: tuple[BucketName, ...] = ("wide", "tall", "deep")

BATCHED_SIDE = 128  # of each product of a batch, at most this: a large tile would hold little else than air
SKINNY_SIDE = 64  # of a product that is wide or tall, at most this, and the other
SKINNY_RATIO = 8  # so many times longer
DEEP_SIDE = 512  # of a product that is deep: both sides at most this, and k so many times longer
SMALL_ELEMENTS = 768 * 768  # of the product, the whole batch: fewer large tiles than a GPU has multiprocessors
MEDIUM_ELEMENTS = 1536 * 1536  # and here a few waves of them

EXAMPLES: Mapping[BucketName, tuple[int, int, int, int]] = MappingProxyType(  # m, n, k, batch
    {
        "wide": (16, 8192, 8192, 1),
        "tall": (8192, 16, 8192, 1),
        "deep": (64, 64, 8192, 1),
        "small": (512, 512, 512, 1),
        "batched": (64, 64, 64, 1024),
        "medium": (1024, 1024, 1024, 1),
        "large": (4096, 4096, 4096, 1),
    }
)

MEANINGS: Mapping[BucketName, str] = MappingProxyType(
    {
        "wide": f"at most {SKINNY_SIDE} rows and {SKINNY_RATIO} times as many columns or more, with at most "
        f"{MEDIUM_ELEMENTS} elements in the whole batch",
        "tall": "the same with rows and columns exchanged",
        "deep": f"at most {DEEP_SIDE} rows and columns, and k at least {SKINNY_RATIO} times the longer side",
        "small": f"at most {SMALL_ELEMENTS} elements: fewer large tiles than a GPU has multiprocessors",
        "batched": f"more elements, in a batch of products of at most {BATCHED_SIDE} rows and columns each",
        "medium": f"at most {MEDIUM_ELEMENTS} elements: a few waves of tiles",
        "large": "more elements",
    }
)


def bucket_of(problem: Problem) -> BucketName:
    """The bucket of a problem, by its shape alone: element types have separate defaults. Groups count as a batch of
    products of their average size.
    """
    groups, elements = len(problem.group_sizes), problem.batch * problem.m * problem.n
    m, n = problem.m // max(groups, 1), problem.n
    if elements <= MEDIUM_ELEMENTS:
        if m <= SKINNY_SIDE and n >= SKINNY_RATIO * m:
            return "wide"
        if n <= SKINNY_SIDE and m >= SKINNY_RATIO * n:
            return "tall"
        if max(m, n) <= DEEP_SIDE and problem.k >= SKINNY_RATIO * max(m, n):
            return "deep"
    if elements <= SMALL_ELEMENTS:
        return "small"
    if max(problem.batch, groups) > 1 and max(m, n) <= BATCHED_SIDE:
        return "batched"
    return "medium" if elements <= MEDIUM_ELEMENTS else "large"
