"""Expands a spec into its ordered cases on a device. Pure, so API and worker get the same cases."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from jobs.benchmarks.spec import BenchmarkSpec, ConfigGrid, Configs, KernelAxis, Rectangles, Shape, SizeRange
from jobs.errors import BenchmarkTooLarge, InvalidConfig, InvalidRequest
from jobs.fleet.workers import DeviceInfo
from kernels.catalog import BY_NAME, CATALOG
from kernels.model.entry.config import NO_CONFIG, ConfigError, TileConfig
from kernels.model.kernel import CudaKernel, DeviceTraits, Kernel
from kernels.model.kinds.host_library import HostLibraryKernel
from kernels.model.numerics import DTYPES, AccuracyName, DTypeName, Problem
from kernels.selection.candidates import NoKernelError
from kernels.selection.choose import choose

SPARE_BYTES = 1 << 30  # of a device's memory left free beside operands and product: flush buffer, contexts, workspace
MAX_NAMED = 4  # how often a spec may name each case, on average; a baseline is named by every case that uses it
LIBRARY_OF_ACCURACY: dict[AccuracyName, str] = {"tf32": "cublas_tf32", "bf16": "cublas_bf16", "fp16": "cublas_fp16"}


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel with its full config on a problem; `skip` is a sentence that says why it cannot be measured there."""

    kernel: str
    config: TileConfig
    problem: Problem
    baseline: str | None = None  # `id` of the case that this one is compared with; its own if it is the baseline
    skip: str | None = None

    @property
    def id(self) -> str:
        """Identifies the case in every process and run; results are stored and compared under it."""
        p = self.problem
        text = json.dumps([self.kernel, sorted(self.config.items()), p.dtype, p.m, p.n, p.k, p.batch])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def accuracy(self) -> AccuracyName | None:
        return BY_NAME[self.kernel].accuracy.get(self.problem.dtype)

    @property
    def is_baseline(self) -> bool:
        return self.baseline == self.id


def problems(spec: BenchmarkSpec) -> tuple[Problem, ...]:
    """Every shape with every element type, without repetitions."""
    shapes = tuple(dict.fromkeys(_shapes(spec)))
    return tuple(Problem.in_batch(m, n, k, dtype, batch) for dtype in spec.dtypes for m, n, k, batch in shapes)


def _shapes(spec: BenchmarkSpec) -> Iterator[tuple[int, int, int, int]]:
    """The sizes (m, n, k, batch) that the spec asks for."""
    for item in spec.shapes:
        match item:
            case Shape(m=m, n=n, k=k, batch=batch):
                yield m, n, k, batch
            case SizeRange():
                yield from ((size, size, size, 1) for size in item.sizes())
            case Rectangles():
                yield from ((m, n, k, 1) for m, n, k in product(item.m, item.n, item.k))
            case _:
                yield item, item, item, 1


def expand(spec: BenchmarkSpec, device: DeviceInfo, *, limit: int | None = None) -> tuple[Case, ...]:
    """The cases of a sweep; those that cannot run on the device have the reason in `skip`.

    Raises InvalidRequest, InvalidConfig where nothing of what a named kernel was asked for can be done anywhere, and
    BenchmarkTooLarge as soon as there are more than `limit`, or so many more that are named again and again.
    """
    found: dict[str, Case] = {}
    for number, case in enumerate(case for problem in problems(spec) for case in _of_problem(spec, problem, device)):
        found.setdefault(case.id, case)
        if limit is not None and (len(found) > limit or number >= MAX_NAMED * (limit + 1)):
            raise BenchmarkTooLarge
    if not found:
        raise InvalidRequest("No kernel that runs there takes these element types.", field="kernels")
    return tuple(found.values())


def _of_problem(spec: BenchmarkSpec, problem: Problem, device: DeviceInfo) -> Iterator[Case]:
    asked = list(_asked(spec, problem, device.traits))
    misfit = _does_not_fit(problem, device)
    for case in asked:
        baseline = _baseline(spec, case, device.traits)
        if baseline is not None:
            yield replace(baseline, baseline=baseline.id, skip=baseline.skip or misfit)
        yield replace(case, baseline=baseline.id if baseline else None, skip=case.skip or misfit)


def _asked(spec: BenchmarkSpec, problem: Problem, device: DeviceTraits) -> Iterator[Case]:
    if spec.kernels == "best":
        yield from _best(problem, device)
        return
    for kernel, configs in _axes(spec, problem.dtype, device):
        if (reason := _unfit(kernel, problem.dtype, device)) is not None:
            yield Case(kernel.name, NO_CONFIG, problem, skip=reason)
        else:
            yield from _configured(kernel, configs, problem, device)


def _axes(spec: BenchmarkSpec, dtype: DTypeName, device: DeviceTraits) -> Iterator[tuple[Kernel, Configs]]:
    """The axes to combine. A group name leaves out kernels of other element types; a kernel given by name is skipped
    with a reason instead.
    """
    if isinstance(spec.kernels, str):
        yield from ((kernel, spec.configs) for kernel in _group(spec.kernels, device) if dtype in kernel.accuracy)
        return
    for item in spec.kernels:
        own = item.configs if isinstance(item, KernelAxis) else None
        name = item.kernel if isinstance(item, KernelAxis) else item
        yield BY_NAME[name], spec.configs if own is None else own


def _group(name: str, device: DeviceTraits) -> Iterator[Kernel]:
    for kernel in CATALOG:
        ours = isinstance(kernel, CudaKernel) or device.device_class == "cpu"
        if kernel.is_everyday and kernel.device_class == device.device_class and (ours or name == "all"):
            yield kernel


def _best(problem: Problem, device: DeviceTraits) -> Iterator[Case]:
    try:
        choice = choose("auto", NO_CONFIG, problem, DTYPES[problem.dtype].accuracy, device)
    except (NoKernelError, ConfigError):
        return
    yield Case(choice.kernel.name, choice.config, problem)


def _unfit(kernel: Kernel, dtype: DTypeName, device: DeviceTraits) -> str | None:
    if dtype not in kernel.accuracy:
        return f"{kernel.name} does not multiply {dtype} operands; it takes {', '.join(kernel.dtypes)}."
    if isinstance(kernel, HostLibraryKernel):
        return f"{kernel.name} multiplies matrices in the host's memory; a benchmark has them on the device."
    if kernel.needs_scales:
        return f"{kernel.name} takes only operands with block scales, which benchmarks have not."
    return kernel.unsupported_because(device, dtype)


def _configured(kernel: Kernel, configs: Configs, problem: Problem, device: DeviceTraits) -> Iterator[Case]:
    for asked in _configs_asked(kernel, configs):
        try:
            yield Case(kernel.name, dict(kernel.resolve_config(asked, problem, device)), problem)
        except ConfigError as error:
            yield Case(kernel.name, dict(asked), problem, skip=str(error))


def _configs_asked(kernel: Kernel, configs: Configs) -> Iterable[TileConfig]:
    match configs:
        case "default":
            return (NO_CONFIG,)
        case "all":
            return kernel.configs()
        case ConfigGrid(grid=grid):
            return (dict(zip(grid, values, strict=True)) for values in product(*grid.values()))
        case _:
            return configs


def _baseline(spec: BenchmarkSpec, case: Case, device: DeviceTraits) -> Case | None:
    """The case of the same problem that this one is compared with; None if there is none."""
    if spec.baseline == "none":
        return None
    name = spec.baseline if spec.baseline != "auto" else _library_for(case, device)
    kernel = BY_NAME.get(name or "")
    if kernel is None or _unfit(kernel, case.problem.dtype, device) is not None:
        return None
    try:
        config = dict(kernel.resolve_config(NO_CONFIG, case.problem, device))
    except ConfigError:
        return None
    return Case(kernel.name, config, case.problem)


def _library_for(case: Case, device: DeviceTraits) -> str:
    if device.device_class == "cpu":
        return "cpu_blas"
    return library_of(case.problem.dtype, case.accuracy, promoted=case.config.get("promote") != 0)


def library_of(dtype: DTypeName, accuracy: AccuracyName | None, *, promoted: bool = True) -> str:
    """A GPU library's kernel of an accuracy class. Only float32 operands have other classes than their own. Sums of
    8-bit floats that are not `promoted` to float32 have a kernel of their own."""
    if not promoted:
        return "cublas_fp8_fast"
    if dtype == "float32" and accuracy in LIBRARY_OF_ACCURACY:
        return LIBRARY_OF_ACCURACY[accuracy]
    return "cublas"


def _does_not_fit(problem: Problem, device: DeviceInfo) -> str | None:
    need = problem.operand_bytes + problem.product_bytes + SPARE_BYTES
    if device.memory_bytes is None or need <= device.memory_bytes:
        return None
    return f"It needs {need} bytes of memory; {device.name} has {device.memory_bytes}."


def check_named(spec: BenchmarkSpec) -> None:
    """Raises InvalidRequest or InvalidConfig if a named kernel cannot do any of the requested work on any device, so
    that the caller gets an error at once instead of skipped records.
    """
    if isinstance(spec.kernels, str):
        return
    for place, item in enumerate(spec.kernels):
        axis = item if isinstance(item, KernelAxis) else KernelAxis(kernel=item)
        kernel, field = BY_NAME[axis.kernel], f"kernels.{place}"
        if not set(spec.dtypes) & set(kernel.dtypes):
            takes = ", ".join(kernel.dtypes)
            raise InvalidRequest(
                f"{kernel.name} multiplies none of {', '.join(spec.dtypes)}; it takes {takes}.", field=field
            )
        _check_configs(kernel, spec.configs if axis.configs is None else axis.configs, field)


def check_baseline(spec: BenchmarkSpec, device: DeviceTraits) -> None:
    """Raises InvalidRequest if a kernel is named as the baseline that multiplies none of the element types there: a
    benchmark without it would answer another question.
    """
    kernel = BY_NAME.get(spec.baseline)
    reasons = [_unfit(kernel, dtype, device) for dtype in spec.dtypes] if kernel is not None else []
    if reasons and reasons[0] is not None and all(reasons):
        raise InvalidRequest(f"baseline: {reasons[0]}", field="baseline")


def _check_configs(kernel: Kernel, configs: Configs, field: str) -> None:
    first_error: ConfigError | None = None
    for asked in _configs_asked(kernel, configs):
        try:
            kernel.resolve_config(asked)
            return
        except ConfigError as error:
            first_error = first_error or error
    raise InvalidConfig(str(first_error or f"{kernel.name} is given no config."), field=field)
