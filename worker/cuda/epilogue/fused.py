"""Products whose kernel does their epilogue itself, on the device (docs/decisions/0064 and 0075)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock, Thread

import numpy as np
import structlog

from jobs.errors import KernelUnavailable
from kernels.model.kernel import DeviceTraits
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice
from worker.cuda.check.matrices import CheckedMatrices
from worker.cuda.compile import Compiler
from worker.cuda.epilogue.fusable import Fusable, fusable
from worker.cuda.epilogue.fused_check import FusedCheck
from worker.cuda.epilogue.on_device import EpilogueOnDevice
from worker.cuda.epilogue.plan import bias_steps
from worker.cuda.launch import PreparedKernel, PreparedKernels
from worker.cuda.memory import DeviceMatrix, allocate
from worker.cuda.scaled.on_device import ScalesOnDevice
from worker.cuda.sources import Program, activation_check_program
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FusedOnDevice:
    """The kernel, and what it is given: `d` is written, and `z` where it has an activation, which `d` is then of."""

    compiler: Compiler
    fusable: Fusable
    prepared: PreparedKernel
    a: DeviceMatrix
    b: DeviceMatrix
    d: DeviceMatrix
    c: DeviceMatrix | None
    bias: DeviceMatrix | None
    scales: ScalesOnDevice | None = None
    z: DeviceMatrix | None = None

    @property
    def sums(self) -> DeviceMatrix:
        """The sums before the activation."""
        return self.z or self.d

    @property
    def addends(self) -> tuple[DeviceMatrix, ...]:
        """C and the bias, as far as there are such."""
        return tuple(each for each in (self.c, self.bias) if each is not None)

    def launch(self) -> None:
        """Launches the kernel on the current stream."""
        c, bias = self.c or self.d, self.bias or self.d  # without them nothing is read there
        steps = bias_steps(None if self.bias is None else self.bias.layout)
        factors = np.array([self.fusable.alpha, self.fusable.beta], np.float32).view(np.uint32).tolist()
        words = (c.address, bias.address, c.layout.pitch, c.layout.stride, *steps, *factors)
        scales = None if self.scales is None else self.scales.argument
        self.prepared.launch_fused(self.a, self.b, self.d, words, scales, self.z)

    def check(self, matrices: CheckedMatrices) -> FusedCheck:
        """`matrices`: A, B and `sums` as the check reads them."""
        fusable = self.fusable
        return FusedCheck(self.compiler, fusable.fused, fusable.alpha, fusable.beta, *matrices, self.c, self.bias)

    def wrong_elements(self) -> int:
        """The number of elements of `d` that do not follow from `z`. Waits for the device."""
        if self.z is None:
            return 0
        fused = self.fusable.fused
        after = EpilogueOnDevice(self.compiler, 1.0, 0.0, self.z, None, self.d, None, fused.activation)
        return after.wrong_elements(activation_check_program(fused))


class FusedKernels:
    """Kernels with an epilogue that are compiled. Others are compiled in the meantime, while a pass after the product
    replaces them. `traits` are read for each product, because a worker may leave kernels out."""

    def __init__(self, compiler: Compiler, prepared: PreparedKernels, traits: Callable[[], DeviceTraits]) -> None:
        self._compiler, self._prepared, self._traits = compiler, prepared, traits
        self._lock = Lock()
        self._requested: set[Program] = set()

    def find(
        self, problem: Problem, choice: Choice, operands: Sequence[HostOperand], epilogue: Epilogue | None
    ) -> Fusable | None:
        found = fusable(problem, choice, operands, epilogue, self._traits())
        if found is None:
            return None
        missing = [program for program in found.programs if not self._compiler.has(program)]
        if not missing:
            return found
        self._compile([program for program in missing if self._is_new(program)])
        return None

    def on_device(
        self, fusable: Fusable, matrices: Sequence[DeviceMatrix], d: DeviceMatrix, scales: ScalesOnDevice | None
    ) -> FusedOnDevice:
        """`matrices`: A, B, and what is added."""
        a, b, *addends = matrices
        prepared = self._prepared.get(fusable.kernel, fusable.config, fusable.problem, fusable.fused)
        c = addends[0] if fusable.fused.has_c else None
        bias = addends[-1] if fusable.fused.has_bias else None
        z = None if fusable.fused.activation is None else allocate(d.layout)
        return FusedOnDevice(self._compiler, fusable, prepared, a, b, d, c, bias, scales, z)

    def _is_new(self, program: Program) -> bool:
        with self._lock:
            known = program in self._requested
            self._requested.add(program)
            return not known

    def _compile(self, programs: list[Program]) -> None:
        def compile_all() -> None:
            for program in programs:
                try:
                    self._compiler.binary(program)
                except KernelUnavailable as error:
                    log.warning("a kernel with an epilogue is not there", reason=str(error))

        if programs:
            Thread(target=compile_all, name="fused-kernels", daemon=True).start()
