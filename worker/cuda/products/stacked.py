"""The products of several jobs as one batch on the GPU, whose operands it copied from where they are stored."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.matrices.interface import MatrixWriter
from kernels.model.numerics import Problem
from worker.check.verify import max_direct_batch
from worker.cuda.products.on_device import ProductOnDevice
from worker.device.operands import HostOperand, StackedOperand
from worker.device.stacked import StackedProduct


class StackedOnDevice(ProductOnDevice, StackedProduct):
    """The same check as of any batch. Digests are of each job's own matrices, copies back go to each job's own place,
    and nothing is offered as an operand: other jobs would keep the memory of the whole batch."""

    def offer(self, matrix_id: str) -> None:
        """Nothing to offer."""

    def _expected(self, operand: HostOperand) -> list[int]:
        assert isinstance(operand, StackedOperand), "all operands of a stacked product are"
        return [item.expected_digest for item in operand.items]

    def _verify_parts(self) -> None:
        """Nothing was stacked in this process's memory that was multiplied."""

    @property
    def item_digests(self) -> Sequence[int]:
        return self._digests.of(2)

    def store_item(self, index: int, writer: MatrixWriter) -> None:
        if not self._places:
            for chunk in self._staging.download(self._delivered.item(index), self._times.back):
                writer.write(chunk)
            return
        if not self._copies_back:
            self._copies_back = [copy.begin() for copy in self._copy_backs()]
        writer.fill(self._copies_back[index].parts())


def elements_of(problem: Problem) -> int:
    """Of both operands and the product, each with a batch axis."""
    return problem.batch * (problem.m * problem.n + (problem.m + problem.n) * problem.k)


def max_alike(one: Problem, small_elements: int, max_bytes: int) -> int:
    """`Runner.max_alike` of a GPU. `small_elements`: up to which a product is checked by the host. Such products stay
    small together. Above, the host recomputes every element of some, which takes it longer for a batch."""
    if elements_of(one) <= small_elements:
        return small_elements // max(1, elements_of(one))
    return 1 if max_direct_batch(one.as_real) else max_bytes // (one.operand_bytes + one.product_bytes)
