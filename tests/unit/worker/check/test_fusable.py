"""Which products have their epilogue in the kernel itself, and by what: without a device."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from jobs.ledger.interface import Claimed
from jobs.matrices.interface import MatrixStore
from jobs.models import MatmulRequest
from jobs.requests.operands import OperandRef, RandomSpec
from kernels.catalog import BY_NAME
from kernels.model.activations import ACTIVATION_NAMES, ActivationName
from kernels.model.architectures import ARCHITECTURES, H200
from kernels.model.entry.config import NO_CONFIG
from kernels.model.fused import FusedEpilogue
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTypeName, Problem
from kernels.selection.candidates import Choice
from worker.cuda.epilogue.fusable import Fusable, fusable
from worker.cuda.sources import EPILOGUE_CHECK_SOURCE
from worker.device.operands import HostOperand, WidenedOperand
from worker.device.runner import Epilogue
from worker.product.operands import epilogue_of, factor

SIZE = (1024, 1024, 512)
C, BIAS = HostOperand(np.zeros((1, 1))), HostOperand(np.zeros((1, 1)))
FREE = Epilogue(0.5, 2.0, C, BIAS, may_fuse=True)


def found(
    kernel: str,
    dtype: DTypeName,
    epilogue: Epilogue | None,
    *,
    widened: DTypeName | None = None,
    is_free: bool = True,
    size: tuple[int, int, int] = SIZE,
    arch: str = "sm_90",
) -> Fusable | None:
    problem = Problem(*size, dtype)
    chosen = BY_NAME[kernel]
    traits = replace(H200.traits, compute_capability=(9, 0)) if arch == "sm_90" else ARCHITECTURES[arch].traits
    choice = Choice(chosen, chosen.resolve_config(NO_CONFIG, problem, H200.traits), "auto: it was the fastest.")
    pair = [HostOperand(np.zeros((1, 1), np.uint16)) for _ in range(2)]
    if widened is not None:
        pair = [WidenedOperand(each, widened, is_free=is_free) for each in pair]
    return fusable(problem, choice, pair, epilogue, traits)


@pytest.mark.parametrize(
    ("kernel", "dtype"), [("hopper_bf16", "bfloat16"), ("hopper_fp16", "float16"), ("hopper_tf32", "float32")]
)
def test_the_kernel_chosen_does_it_where_it_can(kernel: str, dtype: DTypeName) -> None:
    asked = found(kernel, dtype, FREE)
    assert asked is not None and asked.kernel.name == kernel
    assert asked.fused == FusedEpilogue(dtype, has_c=True, has_bias=True)
    assert (asked.alpha, asked.beta) == (0.5, 2.0)
    told = asked.as_chosen(Choice(asked.kernel, asked.config, "auto: it was the fastest.")).why
    assert told == (
        f"auto: it was the fastest; {kernel} stores its float32 sums with alpha C and the bias added, rounded once."
    )


@pytest.mark.parametrize("activation", ACTIVATION_NAMES)
def test_an_activation_is_the_kernel_s_too_with_a_check_of_its_own(activation: ActivationName) -> None:
    asked = found("hopper_bf16", "bfloat16", replace(FREE, activation=activation))
    assert asked is not None and asked.fused == FusedEpilogue("bfloat16", True, True, activation)
    told = asked.as_chosen(Choice(asked.kernel, asked.config, "auto: it was the fastest.")).why
    assert told.endswith(f"with alpha C and the bias added, rounded once, and {activation} of them.")
    kernel, of_sums, _, of_activation = asked.programs
    named = f"-DACTIVATION_{activation.upper()}"
    assert named in kernel.options and named in of_activation.options and "-DOF_FLOAT32" in of_activation.options
    assert of_activation.path == EPILOGUE_CHECK_SOURCE and "-DOUTPUT" not in "".join(of_activation.options)
    plain = found("hopper_bf16", "bfloat16", FREE)
    assert plain is not None and of_sums in plain.programs and kernel not in plain.programs


def test_sums_are_rounded_before_an_activation_where_the_pass_rounds_them_alone() -> None:
    epilogue = replace(FREE, c=None, beta=0.0, activation="silu")
    assert found("hopper_fp8", "float8_e4m3", epilogue) is not None
    assert found("hopper_fp8", "float8_e4m3", replace(epilogue, output="bfloat16")) is None
    alone = replace(epilogue, output="bfloat16", activation=None, bias=None)
    assert found("hopper_fp8", "float8_e4m3", alone) is not None
    assert found("cublas_tf32", "float32", epilogue, widened="bfloat16") is not None


@pytest.mark.parametrize("added", [{"bias": None}, {"c": None, "beta": 0.0}], ids=["c", "bias"])
@pytest.mark.parametrize("output", ["bfloat16", "float16"])
def test_c_and_a_bias_are_of_the_product_s_type_and_read_as_d_s(added: dict[str, Any], output: DTypeName) -> None:
    asked = replace(FREE, **added)
    assert found("hopper_fp8", "float8_e4m3", asked) is not None
    assert found("hopper_fp8", "float8_e4m3", replace(asked, output=output)) is None
    assert found("hopper_fp8", "float8_e4m3", Epilogue(0.5, 0.0, None, output=output, may_fuse=True)) is not None
    assert found("cublas_tf32", "float32", asked, widened=output) is not None  # whose products are float32, too


def test_rows_begin_where_bulk_copies_reach_for_an_activation_as_for_c() -> None:
    narrow, alone = (100_000, 30, 100), replace(FREE, c=None, beta=0.0)
    assert found("hopper_bf16", "bfloat16", alone, size=narrow) is not None
    for epilogue in (FREE, replace(alone, activation="silu")):
        assert found("hopper_bf16", "bfloat16", epilogue, size=narrow) is None


@pytest.mark.parametrize(
    "epilogue",
    [
        None,
        replace(FREE, may_fuse=False),  # what a caller demands is proven of the pass
        replace(FREE, alpha=0.0),
        replace(FREE, alpha=1e30),
        replace(FREE, beta=1e-30),
    ],
)
def test_all_else_is_left_to_the_pass(epilogue: Epilogue | None) -> None:
    assert found("hopper_bf16", "bfloat16", epilogue) is None


def test_nor_is_what_the_check_does_again_element_by_element() -> None:
    assert found("hopper_bf16", "bfloat16", FREE, size=(512, 512, 512)) is None
    assert found("hopper_bf16", "bfloat16", FREE, size=(4096, 4096, 64)) is None


def test_nor_a_kernel_without_it_nor_one_that_leaves_an_edge() -> None:
    assert found("cublas", "bfloat16", FREE) is None
    assert found("hopper_int8", "int8", FREE) is None
    kernel = BY_NAME["hopper_tf32"]
    assert isinstance(kernel, CudaKernel)
    problem = Problem(4097, 4097, 512, "float32")
    with_edge = kernel.resolve_config({"edge": 8, "block_n": 256}, problem, H200.traits)
    assert kernel.inner(problem, with_edge) != problem
    assert not kernel.fuses(problem, with_edge, FusedEpilogue("float32"))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("epilogue", [None, FREE])
def test_float32_of_operands_of_16_bits_takes_them_as_they_are(dtype: DTypeName, epilogue: Epilogue | None) -> None:
    """Where the class allows it and the kernel was not asked for by name, on a device that has it."""
    asked = found("cublas_tf32", "float32", epilogue, widened=dtype)
    assert asked is not None and asked.kernel.name == f"hopper_{'bf16' if dtype == 'bfloat16' else 'fp16'}"
    assert asked.problem.dtype == dtype and asked.fused.output == "float32"
    assert asked.operand_types == (dtype, dtype, "float32", "float32")
    assert not any(isinstance(each, WidenedOperand) for each in asked.operands)
    assert [program.path.name for program in asked.programs][1:] == ["fused_check.cu", "sketch.cu"]
    assert found("cublas_tf32", "float32", epilogue, widened=dtype, is_free=False) is None
    assert found("cublas", "float32", epilogue, widened=dtype) is None
    assert found("cublas_tf32", "float32", epilogue, widened=dtype, arch="sm_80") is None


@pytest.mark.parametrize(("demand", "may"), [({}, True), ({"reproducible": True}, False), ({"tolerance": 1e-3}, False)])
def test_what_a_caller_demands_is_proven_of_the_pass(demand: dict[str, Any], may: bool) -> None:
    ref = OperandRef(source="inline", dtype="float32", shape=(1, 1))
    request = MatmulRequest(a=ref, b=ref, accuracy="fp32", alpha=2.0, **demand)
    with ExitStack() as opened:
        epilogue = epilogue_of(request, None, cast(MatrixStore, None), opened)
        assert epilogue is not None and epilogue.may_fuse is may


@pytest.mark.parametrize(
    ("asked", "is_free"), [({}, True), ({"kernel": "hopper_tf32"}, False), ({"reproducible": True}, False)]
)
def test_a_kernel_that_is_asked_for_by_name_multiplies_what_it_is_given(asked: dict[str, Any], is_free: bool) -> None:
    spec = RandomSpec(shape=(2, 3))
    ref = OperandRef(source="random", dtype="float16", shape=(2, 3), random=spec)
    request = MatmulRequest(a=ref, b=ref, accuracy="tf32", transpose_b=True, output_dtype="float32", **asked)
    claimed = cast(Claimed, SimpleNamespace(a=None))
    with ExitStack() as opened:
        operand = factor("a", claimed, request, cast(MatrixStore, None), opened)
        assert isinstance(operand, WidenedOperand) and operand.is_free is is_free
