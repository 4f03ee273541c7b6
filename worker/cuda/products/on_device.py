"""A product that is checked on the GPU that computed it, and copied back piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from jobs.errors import OperandDamaged
from jobs.matrices.interface import MatrixWriter, Place
from kernels.model.numerics import AccuracyName, Problem
from worker.check.verify import group_width
from worker.cuda.check.device_product import DeviceProduct
from worker.cuda.check.sketch import digestible
from worker.cuda.check.sketch_argument import NO_DIGESTS
from worker.cuda.digests.copy_back import CopyBack
from worker.cuda.digests.of_product import ProductDigests, divides_parts
from worker.cuda.epilogue.fused import FusedOnDevice
from worker.cuda.epilogue.on_device import EpilogueOnDevice
from worker.cuda.grouped.check import GroupedOnDevice, grouped_on_device
from worker.cuda.memory import Matrices, StopWatch
from worker.cuda.products.base import CudaProduct, ProductInputs, Times
from worker.cuda.products.check_matrices import check_matrices, operands_on_host
from worker.device.operands import HostOperand
from worker.device.runner import verify_on_host

OPERAND_DIGESTS = (0, 1, 3, 4)  # of A, B and what is added, among all that are taken; 2 is the product's


class CheckRequest(NamedTuple):
    """What a product is going to be checked as."""

    problem: Problem
    accuracy: AccuracyName


class ProductOnDevice(CudaProduct):
    """A product checked on the device and copied back piece by piece, so that this process never holds all of it. It is
    created before the device multiplies; `follow` is called while it does, and `computed` afterwards.
    """

    _check: DeviceProduct | GroupedOnDevice

    def __init__(
        self,
        inputs: ProductInputs,
        matrices: Matrices,
        after: EpilogueOnDevice | FusedOnDevice | None,
        places: Sequence[Place],
    ) -> None:
        """`matrices` are A, B and A·B, or the sums of a kernel with an epilogue. `places`, whose memory is registered
        with CUDA, are where the product of each job is to be stored; there may be none."""
        delivered = matrices[2] if after is None else after.d
        super().__init__(inputs, delivered)
        self._after, self._compiler, self._places = after, inputs.compiler, places
        self._items = inputs.items
        self._back = StopWatch()
        self._copies_back: Sequence[CopyBack] = ()
        self._derive: Sequence[Callable[[], None]] = ()
        if inputs.problem.group_sizes:
            self._check_groups(inputs, matrices)
        else:
            self._check_whole(inputs, matrices)

    def _check_groups(self, inputs: ProductInputs, matrices: Matrices) -> None:
        """Digests are of all three matrices, and taken separately: no sketch reads one of them as a whole."""
        problem = inputs.problem
        on_host = operands_on_host(problem, inputs.operands)
        self._digests = ProductDigests(self._compiler, matrices, self._staging, NO_DIGESTS)
        self.matrices = self._check = grouped_on_device(self._compiler, problem, on_host, matrices, inputs.cores)

    def _check_whole(self, inputs: ProductInputs, matrices: Matrices) -> None:
        problem, after = inputs.problem, self._after
        read = check_matrices(self._compiler, problem, inputs.operands, matrices)
        self._derive = read.derive
        by_sketch = NO_DIGESTS
        if problem.flops and read.are_stored:
            by_sketch = digestible(read.on_device, group_width(problem.n, problem.k))
        if after is not None and after.d is not matrices[2]:  # the product that is checked is not the one delivered
            by_sketch = (*by_sketch[:2], False)
        if self._items > 1:
            of_a, of_b, of_c = (left and divides_parts(of) for left, of in zip(by_sketch, matrices, strict=True))
            by_sketch = of_a, of_b, of_c
        digested = *matrices[:2], self._delivered, *(() if after is None else after.addends)
        self._digests = ProductDigests(self._compiler, digested, self._staging, by_sketch, items=self._items)
        epilogue = after.check(read.on_device) if isinstance(after, FusedOnDevice) else None
        self.matrices = self._check = DeviceProduct(
            read.on_device, read.on_host, digests=self._digests, epilogue=epilogue, cores=inputs.cores
        )

    def follow(self, check: CheckRequest | None) -> Any:
        """Puts on the stream, behind the product, what can follow it: the sketch for the check, unless `check` is None,
        and beside it the copy back. Nobody reads the copy before the check has passed. Releases the cores if nothing
        else needs them. Returns the event that the sketch ends with, or None. Called again if the product is launched
        again."""
        if self._copies_back:
            self._staging.synchronize()
            self._copies_back = ()
        self._digests.restart()
        for derive in self._derive:
            derive()
        self._check.prepare()
        if check is None or self._digests.may_wait or not isinstance(self._check, DeviceProduct):
            return None
        copies = self._copy_backs()
        self._digests.begin_others()
        sketched = self._check.launch_ahead(check.problem, check.accuracy)
        if sketched is not None:
            self.device_lock.release()
            self._copies_back = [copy.begin() for copy in copies]
        return sketched

    def computed(self, kernel_ms: float) -> None:
        """Called when the product has been computed."""
        self._times = Times(kernel_ms, self._copying, self._back)
        self._digests.begin_others()

    @property
    def digest(self) -> int:
        (of_all,) = self._digests.of(2)
        return of_all

    def wrong_elements(self) -> int:
        return 0 if self._after is None else self._after.wrong_elements()

    def verify_operands(self) -> None:
        for index, operand in zip(OPERAND_DIGESTS, self._operands, strict=False):
            if self._digests.of(index) != self._expected(operand):
                raise OperandDamaged
        self._verify_parts()

    def _expected(self, operand: HostOperand) -> list[int]:
        return [operand.expected_digest]

    def _verify_parts(self) -> None:
        verify_on_host(part for each in self._operands for part in each.parts[1:])

    def chunks(self) -> Iterator[memoryview]:
        return self._staging.download(self._delivered, self._times.back)

    def store(self, writer: MatrixWriter) -> None:
        """The digests of what lies in the store are taken by the device, which reads it back; of a small one, here."""
        if not self._places:
            super().store(writer)
            return
        try:
            (copy,) = self._copies_back or [each.begin() for each in self._copy_backs()]
            parts = copy.parts()
        finally:
            self._staging.synchronize()
        writer.fill(parts)

    def _copy_backs(self) -> list[CopyBack]:
        """To the places, not begun yet."""
        products = [self._delivered] if self._items == 1 else map(self._delivered.item, range(self._items))
        return [
            CopyBack(self._compiler, product, place, self._back, self._staging)
            for product, place in zip(products, self._places, strict=False)
        ]
