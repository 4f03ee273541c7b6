"""Which config of `cluster_split_k` a product gets: by arithmetic, held against what was recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

from benchmarks.measure.auto_sample import geometric_mean
from benchmarks.recorded import files
from benchmarks.tuned_table import RESULTS, documents, timed
from kernels.catalog import BY_NAME
from kernels.model.architectures import H200
from kernels.model.entry.config import NO_CONFIG
from kernels.model.numerics import Problem

KERNEL = BY_NAME["cluster_split_k"]
Recorded = dict[Problem, dict[tuple[tuple[str, int], ...], float]]


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    """Milliseconds of each config at float32 products where several were measured; of several runs the least."""
    found: Recorded = defaultdict(dict)
    for problem, config, ms in _measured():
        found[problem][config] = min(ms, found[problem].get(config, ms))
    return {problem: configs for problem, configs in found.items() if len(configs) > 1}


def _measured() -> Iterator[tuple[Problem, tuple[tuple[str, int], ...], float]]:
    for _, document in documents(files(RESULTS, "**/*")):
        for case in timed(document):
            if case.kernel == KERNEL.name and case.problem.dtype == "float32" and case.problem.batch == 1:
                yield case.problem, tuple(sorted(case.config.items())), min(case.round_ms.values())


def test_the_default_is_near_the_best_that_was_recorded(recorded: Recorded) -> None:
    ratios = []
    for problem, configs in recorded.items():
        default = tuple(sorted(KERNEL.resolve_config(NO_CONFIG, problem, H200.traits).items()))
        if default in configs:
            ratios.append(min(configs.values()) / configs[default])
    assert len(ratios) > 60
    assert geometric_mean(ratios) >= 0.97 and min(ratios) >= 0.8


@pytest.mark.parametrize(
    ("shape", "block", "cluster"),
    [
        ((64, 64, 64), (16, 16), 1),
        ((256, 256, 256), (16, 16), 1),
        ((64, 64, 8192), (16, 16), 8),
        ((512, 512, 512), (64, 64), 2),
        ((2048, 2048, 2048), (64, 64), 1),
        ((16, 8192, 8192), (16, 128), 8),
        ((8192, 16, 8192), (128, 16), 8),
    ],
)
def test_what_kinds_of_products_get(shape: tuple[int, int, int], block: tuple[int, int], cluster: int) -> None:
    config = KERNEL.resolve_config(NO_CONFIG, Problem(*shape, "float32"), H200.traits)
    assert ((config["block_m"], config["block_n"]), config["cluster"]) == (block, cluster)


def test_integers_have_no_tiny_tiles() -> None:
    config = KERNEL.resolve_config(NO_CONFIG, Problem(64, 64, 64, "int32"), H200.traits)
    assert (config["block_m"], config["block_n"]) == (32, 32)
