"""A random product as a worker is asked for it: how its kernel is chosen, and how it is computed."""

from __future__ import annotations

from contextlib import AbstractContextManager

from jobs.matrices.digest import digest_of
from jobs.matrices.interface import MatrixInfo, MatrixWriter
from jobs.models import MatmulRequest
from jobs.requests.operands import OperandRef
from kernels.model.bounds import Magnitudes
from kernels.model.kernel import DeviceTraits
from kernels.selection.candidates import Choice
from kernels.selection.choose import choose
from kernels.selection.demands import ToleranceKind
from tests.stress.cases import Case
from tests.stress.given import Given, outlined
from worker.cuda.epilogue.fusable import Fusable, fusable
from worker.device.operands import StackedOperand
from worker.device.runner import Product, Runner, gathered
from worker.device.stacked import StackedProduct, StackingRunner
from worker.product.auto import AutoChoices
from worker.product.demanded import choose_demanded

Bound = tuple[ToleranceKind, float]


def chosen(runner: Runner, case: Case, given: Given) -> tuple[Choice, Bound | None]:
    """The choice, and the bound that is proven for these operands where a tolerance is asked for."""
    problem, tolerance = case.problem, case.drawn.tolerance
    if tolerance is None and case.form != "reproducible":
        return named(case, runner.device.traits), None
    auto = AutoChoices(runner)

    def measure() -> tuple[Magnitudes, Magnitudes]:
        return auto.magnitudes.of(given.a, problem.dtype), auto.magnitudes.of(given.b, problem.dtype)

    demanded = choose_demanded(request(case, given), 1, runner, auto, measure)
    if tolerance is None:
        return demanded.choice, None
    bound = demanded.bound(case.kernel.name)
    assert bound is not None and bound.value <= tolerance[1], "it was chosen for that"
    return demanded.choice, (bound.kind, bound.value)


def named(case: Case, traits: DeviceTraits) -> Choice:
    return choose(case.kernel.name, case.config, case.problem, case.accuracy, traits)


def request(case: Case, given: Given) -> MatmulRequest:
    """Of a product with a demand."""
    problem = case.problem
    a, b = (OperandRef(source="inline", dtype=problem.dtype, shape=each.shape) for each in (given.a, given.b))
    kind, tolerance = case.drawn.tolerance or ("componentwise", None)
    return MatmulRequest(
        a=a,
        b=b,
        kernel=case.kernel.name,
        config=dict(case.config),
        accuracy=case.accuracy,
        transpose_a=problem.transpose_a,
        transpose_b=problem.transpose_b,
        conjugate_a=problem.conjugate_a,
        conjugate_b=problem.conjugate_b,
        tolerance=tolerance,
        tolerance_kind=kind,
        reproducible=case.form == "reproducible",
    )


def own_epilogue(case: Case, traits: DeviceTraits) -> Fusable | None:
    """How the kernel does the epilogue itself; None where it does not."""
    if traits.device_class == "cpu" or (case.drawn.ending is None and case.drawn.stored is None):
        return None
    outline = outlined(case)
    return fusable(case.problem, named(case, traits), (outline.a, outline.b), outline.epilogue, traits)


def computed(runner: Runner, case: Case, choice: Choice, given: Given) -> AbstractContextManager[Product]:
    """Jobs that are stacked are stacked by the device, where it does so (`worker/product/batch.py`)."""
    problem, a, b = case.problem, given.a, given.b
    stacks = isinstance(runner, StackingRunner) and not case.drawn.ragged and runner.stacks(problem)
    if stacks and isinstance(a, StackedOperand) and isinstance(b, StackedOperand):
        assert isinstance(runner, StackingRunner), "it stacks"
        return runner.compute_stacked(problem, choice, (a, b), [None] * problem.batch)
    return runner.compute(problem, choice, a, b, epilogue=given.epilogue)


def delivered(product: Product) -> tuple[bytearray, bool]:
    """The product's bytes, and whether they have the digests that were taken before the check."""
    if not isinstance(product, StackedProduct):
        data = gathered(product.chunks())
        return data, product.digest == digest_of(data)
    whole, is_right = bytearray(), True
    for index, digest in enumerate(product.item_digests):
        writer = Collected()
        product.store_item(index, writer)
        whole += writer.data
        is_right = is_right and writer.digest == digest
    return whole, is_right


class Collected(MatrixWriter):
    """Keeps what is written."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.data += data

    def fill(self, parts: bytes) -> None:
        raise AssertionError("it has no place")

    @property
    def digest(self) -> int:
        return digest_of(self.data)

    def commit(self) -> MatrixInfo:
        raise AssertionError("it stores nothing")

    def abort(self) -> None:
        """Nothing to give back."""
