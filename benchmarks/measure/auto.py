"""Measures what `auto` takes for random products, together with every fast kernel, through the service.

    python -m benchmarks.measure.auto --out benchmarks/results/h200_auto/2026-11-22-1902485404.jsonl.gz
    python -m benchmarks.measure.auto --rivals-only --shapes 400 --out benchmarks/results/h200_auto/learnt.jsonl.gz
    python -m benchmarks.measure.auto --one-run --dtype bfloat16 --kernels hopper_bf16 cublas_tuned --out …

Each run draws its shapes from a seed that the file keeps. The file is rewritten every few seconds. `auto` is what the
tables take, and `others` are its rivals. `served` is what the service took for a second product of each shape: for
shapes that the tables do not know, a worker measures a few kernels between jobs. The file also lists which of these
were not measured. --rivals-only leaves out what `auto` takes; the result is a sample for the tables to learn from. With
--kernels only these kernels and the library are measured. Use it with the --seed of an earlier run after they have
changed. --but leaves out what an interrupted run has measured. With --one-run, what the tables take is listed as
`taken`, and its speed is that of the same kernel and config among its rivals, in the same rounds; if it is not among
them, it is measured in addition.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from analysis.result_models import Results
from benchmarks.kernel_targets import FURTHER_CONFIGS
from benchmarks.measure.auto_sample import Shape, draw, not_measured, parser_of
from benchmarks.measure.kernels import Kept, look
from benchmarks.measure.presets import ENDED, POLL_S, run, service
from benchmarks.recorded import read
from kernels.catalog import BY_NAME, CATALOG
from kernels.model.kernel import CudaKernel, DeviceClass, DeviceTraits
from kernels.model.kinds.composed import ComposedKernel
from kernels.model.numerics import ACCURACY_NAMES, DTYPES, AccuracyName, DTypeName, Problem
from kernels.selection.choose import choose

SHAPES = 200
TUNED = ("cublas_tuned", "cublas_tf32_tuned")
MEASURED_S = 0.3  # in which a worker measures a shape, whether kernels are compiled or not
SLOW = (
    "naive",
    "naive_uncoalesced",
    "unrolled",
    "coarsened",
    "shared_tiled",
    "shared_tiled_privatized",
    "shared_tiled_prefetch",
    "register_tiled_rows",
)
TIMING = {"rounds": 1, "warmup_ms": 20.0, "min_samples": 5, "max_samples": 20, "min_time_s": 0.02}


def rivals(dtype: DTypeName, device_class: DeviceClass, accuracy: AccuracyName | None = None) -> list[str]:
    """Kernels whose products of the type have this accuracy, by default the type's own. On a GPU these are ours,
    without the first steps of the ladder, and the library's best, which for complex types is its only one; on a CPU it
    is BLAS."""
    wanted = accuracy or DTYPES[dtype].accuracy
    fit = [kernel for kernel in CATALOG if kernel.device_class == device_class and kernel.takes(dtype, wanted)]
    fit = [kernel for kernel in fit if kernel.is_everyday]
    takers = [kernel.name for kernel in fit if accuracy is None or kernel.accuracy[dtype] == accuracy]
    libraries = ("cublas",) if DTYPES[dtype].is_complex else TUNED
    return [name for name in takers if name not in SLOW and (device_class == "cpu" or ours(name) or name in libraries)]


def with_configs(name: str, dtype: DTypeName) -> dict[str, Any]:
    """The kernel in its default config, and in the further configs in which it is measured."""
    further = FURTHER_CONFIGS.get((name, dtype), ())
    return {"kernel": name, "configs": [{}, *further] if further else "default"}


def ours(name: str) -> bool:
    return isinstance(BY_NAME[name], CudaKernel | ComposedKernel)


def benchmark_kernels(
    dtype: DTypeName,
    device_class: DeviceClass,
    *,
    rivals_only: bool,
    kernels: Sequence[str] = (),
    accuracy: AccuracyName | None = None,
) -> dict[str, Any]:
    """The kernels of each benchmark, by the benchmark's name. `kernels` selects rivals; by default all are measured."""
    others = {"others": [with_configs(name, dtype) for name in kernels or rivals(dtype, device_class, accuracy)]}
    return others if rivals_only else {"auto": "best", **others}


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = parser_of(__doc__, shapes=SHAPES)
    parser.add_argument("--but", type=Path, help="without the shapes whose rivals this file has")
    parser.add_argument("--rivals-only", action="store_true", help="without what auto takes")
    parser.add_argument("--tables-only", action="store_true", help="without products that are served and measured")
    parser.add_argument("--one-run", action="store_true", help="by tables alone, what auto takes among its rivals")
    parser.add_argument("--kernels", nargs="+", default=(), help="without what is served: only these of the rivals")
    parser.add_argument(
        "--accuracy", choices=ACCURACY_NAMES, help="with --rivals-only or --one-run: the class, the type's by default"
    )
    parser.add_argument("--budget-s", type=float, default=480.0, help="what is not done by then is cancelled")
    asked = parser.parse_args(arguments)
    if asked.kernels and not (asked.rivals_only or asked.tables_only or asked.one_run):
        parser.error(
            "what is served is held against all rivals: --kernels needs --rivals-only, --tables-only, --one-run"
        )
    if asked.accuracy and not (asked.rivals_only or asked.one_run):
        parser.error("auto takes a type's own class here: --accuracy goes with --rivals-only, --one-run")
    if unknown := set(asked.kernels) - set(rivals(asked.dtype, device_class_of(asked), asked.accuracy)):
        parser.error(f"no rivals of {asked.dtype} there: {', '.join(sorted(unknown))}")
    return asked


def served(client: httpx.Client, shapes: Iterable[Shape], dtype: DTypeName, ends_at: float) -> Iterator[dict[str, Any]]:
    """What `auto` took, and why, for a product of random operands of each shape, one after another."""
    for m, n, k in shapes:
        if time.monotonic() > ends_at:
            return
        operands = {"a": random_operand((m, k), dtype, 2 * m), "b": random_operand((k, n), dtype, 2 * n + 1)}
        reply = client.post("/v1/matmul", json=operands | {"dtype": dtype}, headers={"prefer": "respond-async"})
        location = reply.raise_for_status().headers["location"]
        job = ended(client, location)
        yield {"m": m, "n": n, "k": k, **{name: job[name] for name in ("kernel", "config", "why", "timing")}}
        client.delete(location)


def taken(others: Results, accuracy: AccuracyName | None = None) -> Iterator[dict[str, Any]]:
    """What `auto` takes for each shape whose rivals were measured, by the tables of this process, in the class or in
    the type's own."""
    about = others.device
    device = DeviceTraits(
        about["device_class"],
        tuple(about["compute_capability"]),
        about["shared_bytes_per_block"],
        about["multiprocessors"],
        about["name"],
    )
    for m, n, k, dtype in dict.fromkeys((case.m, case.n, case.k, case.dtype) for case in others.cases):
        choice = choose("auto", {}, Problem(m, n, k, dtype), accuracy or DTYPES[dtype].accuracy, device)
        yield {"m": m, "n": n, "k": k, "kernel": choice.kernel.name, "config": dict(choice.config)}


def random_operand(shape: tuple[int, int], dtype: DTypeName, seed: int) -> dict[str, Any]:
    return {"random": {"shape": shape, "dtype": dtype, "seed": seed}}


def ended(client: httpx.Client, location: str) -> dict[str, Any]:
    """The job's record, once it has succeeded. Raises RuntimeError if it did not."""
    while True:
        job: dict[str, Any] = client.get(location, headers={"prefer": f"wait={POLL_S:g}"}).raise_for_status().json()
        if job["state"] in ENDED:
            if job["state"] != "succeeded":
                raise RuntimeError(f"a product {job['state']}: {job['error']}")
            return job


def had(path: Path) -> frozenset[Shape]:
    """m, n and k of the products whose rivals a run measured."""
    records = read(path)["others"]["records"]
    return frozenset((record["m"], record["n"], record["k"]) for record in records)


def device_class_of(asked: argparse.Namespace) -> DeviceClass:
    return "cpu" if asked.device == "cpu" else "gpu"


def main(arguments: Sequence[str] | None = None) -> None:
    asked = parsed(arguments)
    ends_at = time.monotonic() + asked.budget_s
    left_out = had(asked.but) if asked.but else frozenset()
    drawn = draw(asked.shapes, asked.seed, asked.most, asked.least)
    shapes = [{"m": m, "n": n, "k": k} for m, n, k in drawn if (m, n, k) not in left_out]
    device = device_class_of(asked)
    body: dict[str, Any] = {"shapes": shapes, "dtypes": [asked.dtype], "timing": TIMING, "device": device}
    drawn_as = {"seed": asked.seed, "dtype": asked.dtype, "least": asked.least, "most": asked.most}
    if asked.accuracy:
        drawn_as["accuracy"] = asked.accuracy
    kept = Kept(asked.out, drawn_as, brief=True)
    with (
        service(asked.url, asked.device) as url,
        httpx.Client(base_url=url, timeout=120, trust_env=False) as client,
    ):
        benchmarks = benchmark_kernels(
            *(asked.dtype, device),
            rivals_only=asked.rivals_only or asked.one_run,
            kernels=asked.kernels,
            accuracy=asked.accuracy,
        )
        for name, kernels in benchmarks.items():
            spec = body | {"kernels": kernels, "title": f"random products: {name}"}
            job = run(client, name, spec, ends_at, partial(look, client, kept, name))
            print(f"{name}: {job['state']}", flush=True)
        if asked.one_run:
            records = list(taken(Results.model_validate(read(asked.out)["others"]), asked.accuracy))
        elif not (asked.rivals_only or asked.tables_only):
            if device == "gpu":  # a worker measures what was asked for once no job has come for a while
                list(served(client, drawn, asked.dtype, ends_at))
                time.sleep(min(MEASURED_S * len(drawn), max(0.0, ends_at - time.monotonic())))
            records = list(served(client, drawn, asked.dtype, ends_at))
        else:
            return
        section = "taken" if asked.one_run else "served"
        kept.keep(section, {"records": records})
        measured = [Results.model_validate(read(asked.out)[name]) for name in benchmarks]
        for number, ((kernel, config), where) in enumerate(not_measured(records, measured).items(), start=1):
            axis = {"kernel": kernel, "configs": [dict(config)]}
            spec = body | {"kernels": [axis], "shapes": [{"m": m, "n": n, "k": k} for m, n, k in where]}
            name = f"{section} {number}"
            run(client, name, spec, ends_at, partial(look, client, kept, name))


if __name__ == "__main__":
    main()
