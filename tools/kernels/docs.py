"""What docs/kernels.md says of each kernel: its entry, what follows from its default config, pictures, figures."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kernels.catalog import CATALOG
from kernels.model.architectures import H200_MULTIPROCESSORS
from kernels.model.buckets import BUCKET_NAMES, MEANINGS
from kernels.model.entry.sentences import describe_config
from kernels.model.kernel import CudaKernel, Default, Kernel, LibraryKernel
from kernels.model.kinds.host_library import HostLibraryKernel
from kernels.model.sources import SOURCE_DIR
from tools.kernels.access import Access, access_of
from tools.kernels.figures import is_measured, measured, measured_at, published
from tools.kernels.model import Model, model_of
from tools.kernels.words import steps
from tools.markdown import table

LADDER_SIZE = 4096  # of the measured products in the ladder's table


@dataclass(frozen=True, slots=True)
class LadderRung:
    """A CUDA kernel at its default for large products on an H200."""

    model: Model
    access: Access | None

    @property
    def name(self) -> str:
        return self.model.kernel.name

    @property
    def figures(self) -> dict[str, str]:
        """What may differ from rung to rung."""
        model, access = self.model, self.access
        figures = {
            "threads of a block": str(model.threads),
            "tile of C": "{} × {}".format(*model.tile),
            "sums of a thread": str(model.kernel.accumulators(model.config)),
            "FLOP per byte": f"{model.intensity:.3g}",
        }
        if access:
            figures["bytes fetched"] = f"{access.bytes_fetched:.3g}"
            figures["bytes of shared memory read"] = f"{access.bytes_read:.3g}"
        figures["shared memory, KiB"] = f"{model.shared_bytes / 1024:.3g}"
        if model.registers and model.occupancy:
            figures["registers"] = str(model.registers)
            figures["occupancy"] = f"{model.occupancy:.3g}"
        return figures


def rungs() -> list[LadderRung]:
    models = [model_of(kernel) for kernel in CATALOG if isinstance(kernel, CudaKernel)]
    return [LadderRung(model, access_of(model.kernel.name)) for model in models]


def buckets() -> str:
    return "".join(f"- **{name}:** {MEANINGS[name]}.\n" for name in BUCKET_NAMES)


def ladder() -> str:
    """All rungs side by side."""
    found = rungs()
    names = list(dict.fromkeys(itertools.chain.from_iterable(rung.figures for rung in found)))
    figures = {rung.name: [rung.figures.get(name, "") for name in names] for rung in found}
    if is_measured():
        names.append(f"GFLOPS at {LADDER_SIZE}, of cuBLAS")
        for name, cells in figures.items():
            cells.append(measured_at(name, LADDER_SIZE))
    rows = ((f"[`{name}`](#{name})", *cells) for name, cells in figures.items())
    return table(("Kernel", *names), rows)


def kernels() -> str:
    """Every kernel's section."""
    found = {rung.name: rung for rung in rungs()}
    before = {after.name: rung for rung, after in itertools.pairwise(found.values())}
    return "\n".join(section(kernel, found.get(kernel.name), before.get(kernel.name)) for kernel in CATALOG)


def section(kernel: Kernel, rung: LadderRung | None, before: LadderRung | None) -> str:
    """One kernel's, below its heading."""
    parts = [f"## `{kernel.name}`\n", f"{kernel.summary}\n", f"{kernel.idea}\n"]
    if rung:
        picture = f"../service/dashboard/static/kernels/{kernel.name}.svg"
        parts.append(f"![What a block, a warp and a thread of {kernel.name} touch]({picture})\n")
    parts.append(bullets(facts(kernel)))
    if rung:
        config = f"`{describe_config(rung.model.config)}`" if rung.model.config else "its only config"
        parts.append(f"Large {rung.model.dtype} products get {config} on an H200:\n")
        parts.append(bullets(default_in_words(rung, before)))
    parts += filter(None, (parameters(kernel), defaults(kernel), published(kernel.name), measured(kernel.name)))
    return "\n".join(parts)


def bullets(facts: Iterable[tuple[str, str]]) -> str:
    return "".join(f"- **{name}:** {fact}\n" for name, fact in facts)


def facts(kernel: Kernel) -> Iterator[tuple[str, str]]:
    """What the entry says."""
    yield "Runs on", "an NVIDIA GPU" if kernel.device_class == "gpu" else "a CPU"
    yield "Element types (accuracy class)", ", ".join(f"{dtype} ({cls})" for dtype, cls in kernel.accuracy.items())
    yield "Origin", kernel.origin
    if isinstance(kernel, LibraryKernel):
        yield "Library", kernel.library
    if isinstance(kernel, HostLibraryKernel) and kernel.min_gpus > 1:
        yield "GPUs", f"{kernel.min_gpus} or more, of one worker: `--device gpus:0,1`"
        yield "Needs", kernel.install
    if isinstance(kernel, CudaKernel):
        source = kernel.source_path.relative_to(SOURCE_DIR.parent.parent).as_posix()
        yield "Source", f"[`{source}`](../{source})"
    needs = [("", kernel.min_compute_capability)] if kernel.min_compute_capability > (0, 0) else []
    needs += [(f" for {dtype}", capability) for dtype, capability in kernel.dtype_compute_capability.items()]
    if needs:
        or_newer = " alone" if kernel.architecture_specific else " or newer"
        texts = (f"{'.'.join(map(str, capability))}{or_newer}{whom}" for whom, capability in needs)
        yield "Compute capability", ", ".join(texts)


def default_in_words(rung: LadderRung, before: LadderRung | None) -> Iterator[tuple[str, str]]:
    """What follows from the config."""
    model, access = rung.model, rung.access
    rows, columns = model.tile
    share = f"; {model.splits} blocks share it, each with a part of k" if model.splits > 1 else ""
    yield "Block", f"{model.threads} threads, a tile of {rows} × {columns}, {steps(model.depth)} at a time{share}."
    model_bytes = (
        f"{in_bytes(model.traffic)} if each element comes to each block once, {model.intensity:.3g} FLOP per byte"
    )
    yield "Traffic for a multiply-add", f"{model_bytes}. {fetched_in_words(model, access)}".strip()
    if model.shared_bytes:
        yield "Shared memory", shared_in_words(model, access)
    yield "Registers", registers_in_words(model)
    if before:
        changed = [
            f"{name} {before.figures.get(name)} → {value}"
            for name, value in rung.figures.items()
            if before.figures.get(name) not in (None, value)
        ]
        yield f"Against `{before.name}`", f"{'; '.join(changed)}." if changed else "the same figures."


def fetched_in_words(model: Model, access: Access | None) -> str:
    if access is None:
        return ""
    if access.bytes_fetched <= 1.001 * model.traffic:
        return "Its loads fetch no more."
    return (
        f"Its loads fetch sectors of {in_bytes(access.bytes_fetched)}, and ask for {access.used * 100:.3g} % of that."
    )


def in_bytes(count: float) -> str:
    return f"{count:.3g} byte{'' if count == 1 else 's'}"


def shared_in_words(model: Model, access: Access | None) -> str:
    text = f"{model.shared_bytes / 1024:.3g} KiB a block"
    if access is None:
        return f"{text}."
    text += f"; {in_bytes(access.bytes_read)} read for a multiply-add"
    if access.conflicts is None:
        return f"{text}, by fragments."
    if access.conflicts <= 1:
        return f"{text}, without bank conflicts."
    return f"{text}; accesses take {access.conflicts:.3g} times the turns that they would without bank conflicts."


def registers_in_words(model: Model) -> str:
    sums = model.kernel.accumulators(model.config)
    text = f"{sums} sum{'s' if sums > 1 else ''} a thread"
    if model.registers is None:
        return f"{text}."
    blocks = model.blocks_per_multiprocessor or 0
    return (
        f"{text}, {model.registers} registers in all; {blocks} block{'s' if blocks > 1 else ''} at once on each of "
        f"{H200_MULTIPROCESSORS} multiprocessors, an occupancy of {model.occupancy:.3g}."
    )


def parameters(kernel: Kernel) -> str:
    if not kernel.parameters:
        return ""
    count = sum(1 for _ in kernel.configs())
    rows = ((f"`{p.name}`", ", ".join(map(str, p.values)), str(p.default), p.summary) for p in kernel.parameters)
    text = f"{count} configs:\n\n" + table(("Tile parameter", "Values", "Default", "Meaning"), rows)
    rules = "".join(f"- {constraint.rule}\n" for constraint in kernel.constraints)
    return f"{text}\n{rules}" if rules else text


def _products(default: Default) -> str:
    if default.symmetric:
        return "symmetric"
    return ", ".join(default.buckets) if set(default.buckets) < set(BUCKET_NAMES) else "all"


def defaults(kernel: Kernel) -> str:
    if not kernel.defaults:
        return ""
    rows = (
        (
            _products(default),
            ", ".join(default.dtypes) if default.dtypes else "all",
            f"{'.'.join(map(str, default.min_compute_capability))}"
            if default.min_compute_capability > (0, 0)
            else "any",
            f"`{describe_config(default.config)}`",
        )
        for default in kernel.defaults
    )
    head = ("Products", "Element types", "Compute capability from", "Config")
    by_clocks = isinstance(kernel, CudaKernel) and kernel.clocks is not None
    which = (
        "Of those that suit, the one of the fewest clocks, by arithmetic,"
        if by_clocks
        else "The first that suits and fits"
    )
    return f"{which} is what a request without config gets:\n\n" + table(head, rows)
