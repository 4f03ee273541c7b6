"""The check of a grouped product on the device: that of each group's own product."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.model.groups import Group, groups_of
from kernels.model.numerics import Problem
from worker.check.elementwise import Operands
from worker.check.grouped import GroupedProduct, operands_of
from worker.check.host_matrix import HostMatrix
from worker.cuda.check.device_product import DeviceProduct
from worker.cuda.check.matrices import CheckedMatrices, MatrixOnDevice
from worker.cuda.check.recheck import Cores
from worker.cuda.compile import Compiler
from worker.cuda.grouped.slices import matrices_of
from worker.cuda.memory import Matrices


@dataclass(frozen=True, slots=True)
class GroupedOnDevice(GroupedProduct):
    """Digests of the whole matrices are taken before this reads anything."""

    products: tuple[DeviceProduct, ...]

    def prepare(self) -> None:
        """Prepares what the check needs before the product exists."""
        for each in self.products:
            each.prepare()


def grouped_on_device(
    compiler: Compiler,
    problem: Problem,
    hosts: tuple[HostMatrix, HostMatrix],
    matrices: Matrices,
    cores: Cores | None = None,
) -> GroupedOnDevice:
    """`hosts`: both operands in this process's memory. `cores` as in `DeviceProduct`."""

    def product_of(group: Group) -> DeviceProduct:
        a, b, c = matrices_of(group, matrices)
        of_a, of_b = operands_of(group, *hosts)
        read = CheckedMatrices(
            MatrixOnDevice(compiler, a, of_a.shape),
            MatrixOnDevice(compiler, b, of_b.shape, problem.transpose_b),
            MatrixOnDevice(compiler, c, (1, group.problem.m, problem.n)),
        )
        return DeviceProduct(read, (of_a, of_b), cores=cores)

    whole_c = MatrixOnDevice(compiler, matrices[2], (1, problem.m, problem.n))
    return GroupedOnDevice(tuple(map(product_of, groups_of(problem))), Operands(*hosts, whole_c))
