"""Multiplies random products with every kernel that a device runs, and checks every element.

    make stress ARGS="--count 10000 --processes 4 --out benchmarks/results/h200_stress.json"
    make stress ARGS="--device cpu --count 200"
    make stress ARGS="--seed 7 --first 4211 --count 1"    # one product again

Exits with 1 where a product was wrong; what is told of it is enough to have it again.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from secrets import randbelow
from typing import Any
from unittest import mock

from benchmarks.recorded import write_rows
from jobs.errors import KernelUnavailable
from jobs.settings import Settings
from kernels.model.kernel import LibraryKernel
from tests.stress.ahead import compile_ahead
from tests.stress.cases import Case, Deck
from tests.stress.proof import wrong
from tests.stress.shares import Outcome, run_shares, shares
from tests.stress.tally import COLUMNS, rows
from tests.support.kernels.catalogue import mirrored_at_any_size
from worker.cpu.environment import dated_environment
from worker.device.runner import Runner
from worker.process.start import make_runner

MAX_FAILURES = 10
TOLD_EVERY = 1000
PACKAGES = ("cupy-cuda13x", "numpy")


@contextmanager
def poisoned(runner: Runner) -> Iterator[None]:
    """On a GPU: what is allocated is full of poison, so that an element that no kernel writes is seen."""
    if runner.device.device_class == "cpu":
        yield
        return
    from tests.gpu.poisoned import allocate_poisoned
    from worker.cuda import runner as cuda_runner
    from worker.cuda.epilogue import fused, on_device
    from worker.cuda.products import operands

    with ExitStack() as patched:
        for module in (cuda_runner, fused, on_device, operands):
            patched.enter_context(mock.patch.object(module, "allocate", allocate_poisoned))
        yield


def stressed(runner: Runner, cases: Sequence[Case], seed: int, ends_at: float) -> Outcome:
    """The products that there was time for, and what was wrong with which."""
    outcome = Outcome([], [], [])
    for done, case in enumerate(cases):
        if time.monotonic() > ends_at or len(outcome.failures) == MAX_FAILURES:
            break
        outcome.numbers.append(case.number)
        try:
            said = _wrong(runner, case, seed)
        except KernelUnavailable as refusal:
            outcome.refused.append((case.number, f"seed {seed}, {case}: {refusal}"))
            continue
        if said is not None:
            outcome.failures.append((case.number, f"seed {seed}, {case}: {said}"))
            print(outcome.failures[-1][1], flush=True)
        if (done + 1) % TOLD_EVERY == 0:
            print(f"{done + 1} products", flush=True)
    return outcome


def _wrong(runner: Runner, case: Case, seed: int) -> str | None:
    """A product that cannot be computed, or not be compared, is told as a wrong one is. Raises KernelUnavailable of a
    library that has no such product."""
    try:
        return wrong(runner, case, seed)
    except Exception as error:
        if isinstance(error, KernelUnavailable) and isinstance(case.kernel, LibraryKernel):
            raise
        traceback.print_exc()
        return f"it broke off: {type(error).__name__}: {error}"


def arguments_of(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--count", type=int, default=10_000, help="how many products")
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    parser.add_argument("--seed", type=int, default=randbelow(2**31))
    parser.add_argument("--seconds", type=float, default=480.0, help="no product is begun after so long")
    parser.add_argument("--device", default="gpu:0")
    parser.add_argument("--processes", type=int, default=1, help="that share the products")
    parser.add_argument("--kernels", nargs="*", default=(), help="only these")
    parser.add_argument("--out", type=Path, help="record of the run")
    return parser.parse_args(given)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    asked = arguments_of(arguments)
    with mirrored_at_any_size():
        return run(asked)


def run(asked: argparse.Namespace) -> int:
    began = time.monotonic()
    ends_at = began + asked.seconds
    runner = make_runner(Settings(device=asked.device))
    deck = Deck(asked.seed, runner.device.traits, asked.kernels)
    cases = [deck.case(number) for number in range(asked.first, asked.first + asked.count)]
    print(
        f"seed {asked.seed}: {asked.count} products by {len(deck.kernels)} kernels on {runner.device.name}", flush=True
    )
    try:
        compile_ahead(runner, cases)
    except KernelUnavailable as error:  # whatever else there is was compiled; such products will say so
        print(error, flush=True)
    print(f"compiled in {time.monotonic() - began:.0f} s", flush=True)
    if asked.processes > 1:
        options = ["--seed", str(asked.seed), "--device", asked.device, "--kernels", *asked.kernels]
        outcome = run_shares(shares(asked.first, asked.count, asked.processes), options, ends_at)
    else:
        with poisoned(runner):
            outcome = stressed(runner, cases, asked.seed, ends_at)
    count, wrong_ones = len(outcome.numbers), len(outcome.failures)
    print(f"{count} of {asked.count} products in {time.monotonic() - began:.0f} s, {wrong_ones} wrong", flush=True)
    if asked.out:
        done = [deck.case(number) for number in outcome.numbers]
        counted = rows(done, outcome, runner.device.traits)
        write_rows(asked.out, about(runner, asked, done, outcome), counted)
    return 1 if outcome.failures else 0


def about(runner: Runner, asked: argparse.Namespace, cases: Sequence[Case], outcome: Outcome) -> dict[str, Any]:
    """The record, without its rows."""
    return {
        "environment": dated_environment(*PACKAGES),
        "device": runner.device.model_dump(mode="json"),
        "seed": asked.seed,
        "first": asked.first,
        "asked": asked.count,
        "products": len(cases) - len(outcome.refused),
        "elements": sum(case.problem.batch * case.problem.m * case.problem.n for case in cases),
        "by_data": dict(Counter(case.data for case in cases)),
        "failures": outcome.failures,
        "refused": outcome.refused,
        "columns": COLUMNS,
    }


if __name__ == "__main__":
    sys.exit(main())
