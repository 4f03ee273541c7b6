"""`auto` → a kernel, its config, and why, from measured tables; and the check of a choice the caller made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain

from kernels.catalog import BY_NAME
from kernels.model.entry.config import NO_CONFIG, ConfigError, TileConfig
from kernels.model.entry.sentences import no_groups, wrong_scales
from kernels.model.kernel import DeviceTraits, Kernel, LibraryKernel
from kernels.model.kinds.composed import ComposedKernel
from kernels.model.kinds.pairs import inner_problem
from kernels.model.numerics import ACCURACY_RANGE, ACCURACY_UNIT_ROUNDOFF, DTYPES, AccuracyName, DTypeName, Problem
from kernels.selection.candidates import Choice, NoKernelError, candidates
from kernels.selection.fallbacks import worth_it
from kernels.selection.forecast import Forecast, forecasts, promising
from kernels.selection.grouped import choose_grouped
from kernels.selection.nearby import Nearby, nearby
from kernels.selection.reasons import AS_FAST, Race, reason_of, with_article
from kernels.selection.scaled import choose_scaled
from kernels.selection.triangles import computes_triangle, may_halve
from kernels.selection.tuned import TABLES, Entry, TunedTable

# Times the library's real products, on tables that have no complex ones, a real product must be as fast for a complex
# one to be made of it: the library's complex products may be somewhat faster than its real ones, and B is arranged.
# In products of no more operations the launch that does that weighs too much.
WORTH_ARRANGING, MIN_ARRANGED_FLOPS = 1.5, 1 << 33
FOUR_OVER_THREE = 4 / 3  # times as fast as four real products are three
PROBE_REACH = 6.0  # doublings: shapes this far away show what is worth measuring, but not what is fastest

IsCompiled = Callable[[Kernel, TileConfig], bool]  # whether a device can launch it without compiling

# Fastest first where nothing near was measured. A library's product beats ours until a table says otherwise; one of
# reduced precision is fit only where the caller asked for its class, and faster there.
_PREFERENCE: tuple[str, ...] = (
    "cublas_fp16",
    "cublas_bf16",
    "cublas_tf32",
    "cublas",
    "complex_as_real",
    "cublas_fp8_fast",
    "pipelined",
    "warp_tiled",
    "vectorized",
    "register_tiled",
    "register_tiled_rows",
    "shared_tiled_privatized",
    "shared_tiled_prefetch",
    "shared_tiled",
    "coarsened",
    "unrolled",
    "naive",
    "naive_uncoalesced",
    "cpu_blas",
    "cpu_float64",
    "cpu_exact",
)


def choose(name: str, asked: TileConfig, problem: Problem, accuracy: AccuracyName, device: DeviceTraits) -> Choice:
    """Resolves a caller's kernel and config on a device. Raises NoKernelError, ConfigError.

    `auto` takes the fastest kernel measured at that shape on that device model. If the shape was not measured, it takes
    the one forecast to be fastest from nearby shapes. Among kernels within 2 % of the fastest, a library's is
    preferred, because it adapts to any shape, and then the more accurate one. If nothing nearby was measured, or the
    default preference was not, it takes the default preference.
    """
    if name != "auto":
        return _named(BY_NAME[name], asked, problem, accuracy, device)
    if problem.scale_columns:
        return choose_scaled(problem, accuracy, device)
    if problem.group_sizes:
        return choose_grouped(problem, accuracy, device)
    return _of_shipped(problem, accuracy, device)


@lru_cache(maxsize=4096)
def _of_shipped(problem: Problem, accuracy: AccuracyName, device: DeviceTraits) -> Choice:
    return choose_from(TABLES, problem, accuracy, device)


def choose_from(
    tables: Iterable[TunedTable],
    problem: Problem,
    accuracy: AccuracyName,
    device: DeviceTraits,
    is_compiled: IsCompiled = lambda _kernel, _config: True,
    among: Sequence[Kernel] | None = None,
) -> Choice:
    """What `auto` takes by these tables, among compiled kernels unless none of those fits. `among` restricts the choice
    to these kernels, whose classes need not meet `accuracy`, which is then the loosest of them. Raises NoKernelError,
    ConfigError.
    """
    everyday = [kernel for kernel in candidates(problem, accuracy, device) if kernel.is_everyday]
    fit = {kernel.name: kernel for kernel in (everyday if among is None else among)}
    preferred = preferred_of(fit.values())
    if preferred is None:
        raise NoKernelError(f"no kernel multiplies {problem.dtype} operands to {accuracy} accuracy on this device.")
    classes = {kernel.accuracy[problem.dtype] for kernel in among or ()}
    near = nearby(problem, accuracy, device, tables, classes=classes)
    if near is not None and DTYPES[problem.dtype].is_complex and all(_is_larger(one, problem) for one in near.entries):
        near = None  # what a composed kernel gains falls with the size, and the real product's kernel has a cost model
    rivals = {name: kernel for name, kernel in fit.items() if not problem.symmetric or may_halve(kernel)}
    choice = None if near is None else _measured(near, rivals, preferred, problem, device, is_compiled)
    if choice is not None and (not problem.symmetric or computes_triangle(choice.kernel, choice.config, problem)):
        return choice
    if near is None and (choice := _as_real(problem, fit, accuracy, device, tables, is_compiled)) is not None:
        return choice
    config = _compiled_default(preferred, problem, device, is_compiled)
    takes = f"{problem.dtype} to {accuracy}"
    why = f"the first of {len(fit)} kernels that take {takes} here, in order of preference"
    if len(fit) == 1:
        why = f"the only kernel here that takes {takes}"
    return Choice(preferred, config, f"auto: {preferred.name} is {why}.")


def _is_larger(entry: Entry, problem: Problem) -> bool:
    return entry.problem.flops > problem.flops


def _compiled_default(kernel: Kernel, problem: Problem, device: DeviceTraits, is_compiled: IsCompiled) -> TileConfig:
    """The kernel's config for the problem; if that is not compiled, one for other problems that is."""
    own = kernel.resolve_config(NO_CONFIG, problem, device)
    starts = (default.config for default in kernel.defaults if default.runs(problem.dtype, device))
    others = (_resolved(kernel, start, problem, device) for start in starts)
    return next((config for config in chain([own], others) if config is not None and is_compiled(kernel, config)), own)


def _resolved(kernel: Kernel, start: TileConfig, problem: Problem, device: DeviceTraits) -> TileConfig | None:
    """None for a config that is too large for the element type, such as one for float32 of float64."""
    try:
        return kernel.resolve_config(start, problem, device)
    except ConfigError:
        return None


def preferred_of(fit: Iterable[Kernel]) -> Kernel | None:
    """The default preference among suitable kernels, taken without measurements; if it was not measured, measurements
    of others do not count.
    """
    by_name = {kernel.name: kernel for kernel in fit}
    return next((by_name[name] for name in _PREFERENCE if name in by_name), None)


def choose_again(problem: Problem, accuracy: AccuracyName, device: DeviceTraits) -> Choice:
    """What `auto` takes for another attempt at a product that failed: one of this project's kernels, because a library
    would fail in the same way again; a library's only if there is no other. Raises NoKernelError, ConfigError.

    cuBLAS adds up parts of k in 16 bits at some shapes, whatever its math mode says, and its product is then outside of
    its class.
    """
    fit = candidates(problem, accuracy, device)
    kernel = preferred_of(each for each in fit if not isinstance(each, LibraryKernel)) or preferred_of(fit)
    if kernel is None:
        raise NoKernelError(f"no kernel multiplies {problem.dtype} operands to {accuracy} accuracy on this device.")
    config = kernel.resolve_config(NO_CONFIG, problem, device)
    return Choice(kernel, config, f"auto: an attempt before this one failed, so {kernel.name} is taken.")


def contenders(
    problem: Problem, accuracy: AccuracyName, device: DeviceTraits, tables: Iterable[TunedTable] = TABLES
) -> tuple[Forecast, ...]:
    """The kernels worth measuring before `auto` chooses. Empty if exactly this shape was measured, or no shape within
    PROBE_REACH of it."""
    near = nearby(problem, accuracy, device, tables, PROBE_REACH)
    if near is None or near.entries[0].is_of(problem):
        return ()
    fit = {kernel.name: kernel for kernel in candidates(problem, accuracy, device)}
    return promising(near, fit, problem, device)


def _measured(
    near: Nearby,
    fit: Mapping[str, Kernel],
    preferred: Kernel,
    problem: Problem,
    device: DeviceTraits,
    is_compiled: IsCompiled,
) -> Choice | None:
    measured = forecasts(near, fit, problem, device)
    if not any(contender.point.kernel is preferred for contender in measured):
        return None
    rivals = _worth_their_fallback(measured, problem)
    first = _winner(rivals, problem.dtype)
    chosen, fastest = first
    while not is_compiled(chosen.point.kernel, chosen.point.config):
        rivals.remove(chosen)
        if not rivals:
            return None
        chosen, fastest = _winner(rivals, problem.dtype)
    said = reason_of(Race(chosen, fastest, len(rivals), near.table), problem)
    if chosen is not first[0]:
        said = f"{said.removesuffix('.')}; {first[0].point.kernel.name} goes before it and is not compiled yet."
    if near.table.device_of(chosen.point.entry) != device.name:
        said = f"{said.removesuffix('.')}; this is {with_article(device.name)}, of the same compute capability."
    return Choice(chosen.point.kernel, chosen.point.config, f"auto: {said}")


def _as_real(
    problem: Problem,
    fit: Mapping[str, Kernel],
    accuracy: AccuracyName,
    device: DeviceTraits,
    tables: Iterable[TunedTable],
    is_compiled: IsCompiled,
) -> Choice | None:
    """The choice for a complex product computed as a real one, or as three real ones in place of four, if that should
    be much faster than any library."""
    composed, real = next((each for each in fit.values() if isinstance(each, ComposedKernel)), None), problem.as_real
    near = None if problem.flops <= MIN_ARRANGED_FLOPS else nearby(real, accuracy, device, tables)
    if composed is None or near is None:
        return None
    among = {kernel.name: kernel for kernel in candidates(real, accuracy, device) if kernel.is_everyday}
    found = forecasts(near, among, real, device)
    rivals = _worth_their_fallback(tuple(_of_three(each, problem) for each in found), real)
    if not rivals:
        return None
    chosen, fastest = _winner(rivals, real.dtype)
    if isinstance(chosen.point.kernel, LibraryKernel) or chosen.cautious < WORTH_ARRANGING:
        return None
    takes_pairs = inner_problem(chosen.point.kernel, problem) == problem
    config = composed.resolve_config({"emulated": int(takes_pairs)}, problem, device)
    if not is_compiled(composed, config):
        return None
    said = reason_of(Race(chosen, fastest, len(rivals), near.table), real)
    return Choice(composed, config, f"auto: as a real product of {real.m}×{real.n}×{real.k}: {said}")


def _of_three(forecast: Forecast, problem: Problem) -> Forecast:
    """The forecast for a complex product, from that for the equivalent real product."""
    takes_pairs = inner_problem(forecast.point.kernel, problem) == problem
    gain = FOUR_OVER_THREE if takes_pairs else 1.0
    return replace(forecast, speed=forecast.speed * gain, us=forecast.us / gain)


def _winner(rivals: Sequence[Forecast], dtype: DTypeName) -> tuple[Forecast, Forecast]:
    """The chosen kernel, and the fastest one."""
    rivals = list(_without_outdone(rivals))
    if any(isinstance(one.point.kernel, LibraryKernel) for one in rivals):
        rivals = [one for one in rivals if not one.is_gamble]
    fastest = max(rivals, key=lambda contender: contender.cautious)
    as_fast = [one for one in rivals if one.cautious >= AS_FAST * fastest.cautious]
    return min(as_fast, key=lambda contender: _precedence(contender, dtype)), fastest


def _without_outdone(rivals: Sequence[Forecast]) -> Iterator[Forecast]:
    """Drops a library's own choice if its tuned entry was forecast too: that tries the own choice among others, so it
    is no slower, whatever the forecasts say. If both were measured, measurements decide."""
    tuned = any(isinstance(one.point.kernel, LibraryKernel) and one.point.kernel.is_tuned for one in rivals)
    for one in rivals:
        kernel = one.point.kernel
        if not (tuned and one.doubt and isinstance(kernel, LibraryKernel) and not kernel.is_tuned):
            yield one


def _worth_their_fallback(rivals: Sequence[Forecast], problem: Problem) -> list[Forecast]:
    """Drops kernels that may fall back, unless they are faster by enough."""
    times = {one.point.kernel.name: one.us for one in rivals}
    held_against = {one.point.kernel.name: one.us / one.caution for one in rivals}
    worth = set(worth_it(times, problem, held_against))
    return [one for one in rivals if one.point.kernel.name in worth]


def _precedence(one: Forecast, dtype: DTypeName) -> tuple[bool, float, bool, bool, float]:
    """The sort key among equally fast kernels, smallest first."""
    kernel = one.point.kernel
    accuracy = kernel.accuracy[dtype]
    ours = not isinstance(kernel, LibraryKernel)
    untuned = not (isinstance(kernel, LibraryKernel) and kernel.is_tuned)
    return ours, ACCURACY_UNIT_ROUNDOFF[accuracy], accuracy in ACCURACY_RANGE, untuned, -one.cautious


def _named(kernel: Kernel, asked: TileConfig, problem: Problem, accuracy: AccuracyName, device: DeviceTraits) -> Choice:
    if (reason := kernel.unsupported_because(device, problem.dtype)) is not None:
        raise NoKernelError(reason)
    if not kernel.takes(problem.dtype, accuracy):
        raise NoKernelError(f"{kernel.name} does not multiply {problem.dtype} operands to {accuracy} accuracy.")
    if not kernel.takes_scales_of(problem):
        raise NoKernelError(wrong_scales(kernel.name, needed=kernel.needs_scales))
    if not kernel.takes_groups_of(problem):
        raise NoKernelError(no_groups(kernel.name, problem.dtype))
    return Choice(kernel, kernel.resolve_config(asked, problem, device), f"{kernel.name} was asked for.")
