"""The campaign's faults in D = alpha·A·B + beta·C: in the product below, and after it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import DTYPES
from tests.campaign.backends import CpuBackend
from tests.campaign.data import INTEGERS
from tests.campaign.faults import FAULTS
from tests.campaign.scenes import Scene, scene
from tests.support.kernels.products import Data, matrix
from worker.check.elements import as_float64
from worker.check.epilogue import wrong_elements
from worker.cpu.epilogue import add_epilogue
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue

BACKEND, SCENES = CpuBackend(), 60


@dataclass(slots=True)
class Accumulated:
    """D, and its check with other elements in the place of its own, or of those of A·B."""

    scene: Scene
    alpha: float
    beta: float
    added: Array

    def made(self, p: Array) -> Array:
        epilogue = Epilogue(self.alpha, self.beta, HostOperand(self.added))
        return add_epilogue(self.scene.problem, epilogue, p).reshape(p.shape)

    def passes(self, p: Array, d: Array, rng: np.random.Generator) -> bool:
        dtype = self.scene.problem.product_dtype
        wrong = wrong_elements(d, p, self.added, self.alpha, self.beta, dtype)
        return wrong == 0 and self.scene.made.passes(p, rng)


def accumulated(number: int) -> Accumulated:
    drawn, rng = scene(BACKEND, 9, number), np.random.default_rng(number)
    data: Data = "integers" if drawn.data in INTEGERS else "normal"
    added = matrix(drawn.c.shape[1:], drawn.problem.product_dtype, rng, data)
    is_integer = DTYPES[drawn.problem.product_dtype].is_integer
    alpha, beta = (float(rng.integers(1, 9)) if is_integer else rng.uniform(0.5, 2.0) for _ in range(2))
    return Accumulated(drawn, alpha, beta, added[np.newaxis])


def differs(one: Array, other: Array, scene: Scene) -> bool:
    """In value: NaN equals NaN."""
    dtype = scene.problem.product_dtype
    if DTYPES[dtype].is_integer:
        return not np.array_equal(one, other)
    return not np.array_equal(as_float64(one, dtype), as_float64(other, dtype), equal_nan=True)


def test_every_fault_after_the_product_is_caught() -> None:
    """Faults of every kind, down to the last bit: none passes because it is small."""
    caught = dict.fromkeys((name for name, fault in FAULTS.items() if fault.stage == "product"), 0)
    for number in range(SCENES):
        drawn = accumulated(number)
        scene_of_d, p, rng = drawn.scene, drawn.scene.c, np.random.default_rng((9, number))
        d = drawn.made(p)
        assert drawn.passes(p, d, rng), str(scene_of_d)
        for name in caught:
            fault = FAULTS[name]
            if fault.data in ("", scene_of_d.data) and fault.of_complex <= scene_of_d.is_complex:
                spoilt = d.copy()
                FAULTS[name].spoil(scene_of_d, spoilt, rng)
                if differs(spoilt, d, scene_of_d):
                    assert not drawn.passes(p, spoilt, rng), f"{name}: {scene_of_d}"
                    caught[name] += 1
    assert all(caught.values()), caught


def test_another_c_or_factor_is_caught() -> None:
    for number in range(SCENES):
        drawn = accumulated(number)
        p, rng = drawn.scene.c, np.random.default_rng((8, number))
        right = drawn.made(p)
        for other in (
            replace(drawn, added=np.roll(drawn.added, 1, axis=1)),
            replace(drawn, beta=-drawn.beta),
            replace(drawn, alpha=2 * drawn.alpha),
        ):
            if differs(other.made(p), right, drawn.scene):
                assert not drawn.passes(p, other.made(p), rng), f"{other.alpha} {other.beta} {drawn.scene}"


def test_a_fault_of_the_product_below_is_caught() -> None:
    """D follows from the spoilt A·B, so only the check of A·B can tell."""
    caught = 0
    for number in range(SCENES):
        drawn, rng = accumulated(number), np.random.default_rng((7, number))
        p = drawn.scene.c.copy()
        FAULTS["a row zeroed"].spoil(drawn.scene, p, rng)
        if drawn.scene.truth.excess(p, told=True) > 1.0:
            assert not drawn.passes(p, drawn.made(p), rng), str(drawn.scene)
            caught += 1
    assert caught > SCENES // 2
