"""What only a GPU runs, as far as it can be proved without one: `python -m tests.support.played.gpu_code` prints what
it finds as JSON. CuPy is replaced by mocks, so this is for a process of its own.

- modules of `worker/cuda` and `tests/gpu` that cannot be imported;
- names that tests on a GPU put something in the place of, and that are not there;
- kernels that cannot be chosen, planned or admitted for a product that they take, or whose programs cannot be listed.
"""

from __future__ import annotations

import ast
import importlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np

from jobs.formats.elements import STORAGE_DTYPES
from kernels.catalog import CATALOG
from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import CudaKernel, DeviceTraits
from kernels.model.numerics import ACCURACY_NAMES, DTYPE_NAMES, DTypeName, Problem
from kernels.selection.candidates import Choice, NoKernelError
from kernels.selection.choose import choose
from tests.support.played.variants import DEVICES, plain, variants
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue

ROOT = Path(__file__).resolve().parents[3]
COMPILER: Any = MagicMock()
planned: Counter[str] = Counter()  # products, by kernel
BACKENDS = ("cupy_backends", "cupy_backends.cuda", "cupy_backends.cuda.api", "cupy_backends.cuda.libs")


def install() -> None:
    """In place of CuPy."""
    sys.modules.update({name: MagicMock(name=name) for name in ("cupy", "pynvml", *BACKENDS)})
    device = sys.modules["cupy"].cuda.Device.return_value
    device.compute_capability, device.attributes = "90", {"MultiProcessorCount": 132}


def modules() -> Iterator[str]:
    for folder in ("worker/cuda", "tests/gpu"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def not_importable() -> Iterator[str]:
    for name in modules():
        try:
            importlib.import_module(name)
        except Exception as error:
            yield f"{name}: {error!r}"


# ---- what tests put something in the place of ----
def not_there() -> Iterator[str]:
    yield from (f"{place}: {owner}.{name}" for place, owner, name in replaced() if not hasattr(_found(owner), name))


def replaced() -> Iterator[tuple[str, str, str]]:
    """File and line, the dotted path of a module or class, and a name there."""
    for path in sorted((ROOT / "tests/gpu").rglob("*.py")):
        tree = ast.parse(path.read_text())
        known = dict(_imported(tree))
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Attribute) and call.func.attr in ("setattr", "delattr"):
                place = f"{path.relative_to(ROOT)}:{call.lineno}"
                yield from ((place, owner, name) for owner, name in _targets(call.args, known, tree))


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Names of modules, and of what they hold, with the dotted path of each; wherever in the file they are imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((each.asname or each.name, f"{node.module}.{each.name}") for each in node.names)
        elif isinstance(node, ast.Import):
            yield from ((each.asname, each.name) for each in node.names if each.asname)


def _targets(arguments: list[ast.expr], known: dict[str, str], tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Dotted paths of what is given another attribute, with its name; nothing for objects that a test made."""
    match arguments:
        case [ast.Constant(value=str(path)), *_] if "." in path:
            owner, _, name = path.rpartition(".")
            yield owner, name
        case [owner, ast.Constant(value=str(name)), *_]:
            written = ast.unparse(owner)
            for each in _looped_over(written, tree) or [written]:
                first, *rest = each.split(".")
                if first in known:
                    yield ".".join([known[first], *rest]), name


def _looped_over(variable: str, tree: ast.AST) -> list[str]:
    loops = (node for node in ast.walk(tree) if isinstance(node, ast.For) and ast.unparse(node.target) == variable)
    return [ast.unparse(each) for loop in loops if isinstance(loop.iter, ast.Tuple) for each in loop.iter.elts]


def _found(path: str) -> Any:
    """The module, class or object of that dotted path. None where nothing is."""
    head, _, name = path.rpartition(".")
    try:
        return importlib.import_module(path)
    except ImportError:
        return getattr(_found(head), name, None) if head else None


# ---- products of every kind ----
def not_planned() -> Iterator[str]:
    for device, kernel in ((device, kernel) for device in DEVICES if device != "H100" for kernel in CATALOG):
        for dtype in (each for each in kernel.dtypes if not kernel.unsupported_because(DEVICES[device], each)):
            for kind, problem in variants(kernel, dtype):
                try:
                    choice = choose(kernel.name, NO_CONFIG, problem, kernel.accuracy[dtype], DEVICES[device])
                    _plan(choice, problem, DEVICES[device])
                except Exception as error:
                    yield f"{kernel.name} for {dtype}, {kind}, on {device}: {error!r}"


def not_taken() -> Iterator[str]:
    """By `auto`. That no kernel meets a class is documented."""
    for device, dtype in ((device, dtype) for device in DEVICES for dtype in DTYPE_NAMES):
        for kind, problem in plain(dtype):
            for accuracy in ACCURACY_NAMES:
                try:
                    _plan(choose("auto", NO_CONFIG, problem, accuracy, DEVICES[device]), problem, DEVICES[device])
                except NoKernelError:
                    continue
                except Exception as error:
                    yield f"auto for {dtype} to {accuracy}, {kind}, on {device}: {error!r}"


def _plan(choice: Choice, problem: Problem, traits: DeviceTraits) -> None:
    """All that happens before a product touches its device, with an epilogue and without."""
    from worker.cuda.epilogue.fusable import fusable
    from worker.cuda.gpu.admission import bytes_needed
    from worker.cuda.launch import kernel_bytes, prepare
    from worker.cuda.operand_cache import OperandCache
    from worker.cuda.programs import programs_of_choice

    programs = set(programs_of_choice(choice, problem, traits))
    assert programs or not isinstance(choice.kernel, CudaKernel)
    operands, epilogue = [*_operands(problem)], None
    if not problem.group_sizes:
        c = _empty(problem.product_shape, problem.product_dtype)
        epilogue = Epilogue(2.0, 1.0, c, may_fuse=True)
        operands.append(c)
        if (fused := fusable(problem, choice, operands, epilogue, traits)) is not None:
            programs |= set(fused.programs)
    assert all(program.path.exists() for program in programs)
    of_kernel = kernel_bytes(choice, problem, traits)
    assert bytes_needed(problem, operands, OperandCache(0), epilogue, of_kernel) > of_kernel >= 0
    if isinstance(choice.kernel, CudaKernel):
        prepare(COMPILER, choice.kernel, choice.config, problem)
    planned[choice.kernel.name] += 1


def _operands(problem: Problem) -> Iterator[HostOperand]:
    shapes = (problem.m, problem.k), (problem.k, problem.n)
    counts = problem.batch if problem.a_batched else 0, problem.batch if problem.b_batched else len(problem.group_sizes)
    for shape, count, is_transposed in zip(shapes, counts, (problem.transpose_a, problem.transpose_b), strict=True):
        core = shape[::-1] if is_transposed else shape
        yield _empty((count, *core) if count else core, problem.dtype)


def _empty(shape: tuple[int, ...], dtype: DTypeName) -> HostOperand:
    """One element stands for all."""
    return HostOperand(np.broadcast_to(np.zeros((), STORAGE_DTYPES[dtype]), shape))


if __name__ == "__main__":
    install()
    found: dict[str, Any] = {each.__name__: [*each()] for each in (not_importable, not_there, not_planned, not_taken)}
    print(json.dumps(found | {"planned": planned, "replaced": [f"{owner}.{name}" for _, owner, name in replaced()]}))
