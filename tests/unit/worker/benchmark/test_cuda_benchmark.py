"""The arithmetic planning of a GPU benchmark, and the roofs it is compared with. No device is needed."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest

from jobs.fleet.workers import Ceilings, DeviceInfo
from kernels.catalog import BY_NAME
from kernels.model.architectures import ARCHITECTURES
from kernels.model.numerics import REAL_NAMES, AccuracyName, DTypeName
from tools.nvrtc import compile_all, compile_program
from worker.cpu.environment import dated_environment, host_environment, variables
from worker.cuda.bench.plan import drawn, flush_bytes, is_contended, mean_clock_mhz, rotating_sets
from worker.cuda.gpu.peaks import CORE_MULTIPLY_ADDS, MULTIPLY_ADDS, core_gflops, link_gb_s, peak_gflops
from worker.cuda.sources import benchmark_program, random_program
from worker.device.roof import roof_of, theoretical_gflops

MIB = 1 << 20


def test_what_times_kernels_compiles_for_every_architecture() -> None:
    for compiled in compile_all((benchmark_program(), arch) for arch in ARCHITECTURES):
        for name in ("wait_for", "stamp", "spin", "copy", "triad", "chains_float32", "chains_float64", "chains_int32"):
            assert name.encode() in compiled.binary
        assert compiled.local_bytes == 0, "a chain in local memory would measure that memory"


@pytest.mark.parametrize("dtype", REAL_NAMES)
def test_what_makes_operands_compiles(dtype: DTypeName) -> None:
    """Each element type for one architecture, in turn."""
    arch = tuple(ARCHITECTURES)[REAL_NAMES.index(dtype) % len(ARCHITECTURES)]
    assert b"draw" in compile_program(random_program(dtype), arch).binary


# ---- a sample ----
def test_the_flush_is_twice_the_l2_and_large_on_small_devices() -> None:
    assert flush_bytes(4 * MIB) == flush_bytes(None) == 256 * MIB
    assert flush_bytes(200 * MIB) == 400 * MIB


@pytest.mark.parametrize(
    ("set_bytes", "launches", "sets"),
    [
        (768 << 10, 40, 40),  # small: each launch has a set of its own
        (MIB, 128, 101),
        (30 * MIB, 10, 5),  # a set's turn comes again after four others, 120 MiB
        (500 * MIB, 2, 2),
        (500 * MIB, 1, 1),
        (1, 128, 128),
    ],
)
def test_sets_rotate_so_that_none_is_still_in_the_l2(set_bytes: int, launches: int, sets: int) -> None:
    l2 = 50 * MIB
    assert rotating_sets(set_bytes, l2, launches) == sets
    assert sets == launches or (sets - 1) * set_bytes >= 2 * l2


def test_the_clock_is_that_of_multiprocessors_stamped_twice() -> None:
    stamps = np.zeros((2, 4, 2), np.uint64)
    stamps[0] = (10_000, 1_000_000), (0, 0), (50_000, 1_000_000), (70_000, 1_000_000)
    stamps[1] = (190_000, 1_100_000), (500_000, 1_100_000), (0, 0), (250_000, 1_100_000)
    assert mean_clock_mhz(stamps) == pytest.approx(1800)
    assert mean_clock_mhz(np.zeros((2, 4, 2), np.uint64)) is None


def test_integer_operands_are_never_fractions() -> None:
    assert [drawn("int8", each) for each in ("normal", "uniform", "integers", "zeros")] == [*["integers"] * 3, "zeros"]
    assert drawn("bfloat16", "normal") == "normal"


@pytest.mark.parametrize(
    ("seen", "contended"),
    [
        ((), False),
        ((100,), False),
        ((100, 101), False),  # its own child
        ((100, 7), True),
        ((7,), False),  # a container: ids are the host's, and one is this process
        ((7, 8), True),
    ],
)
def test_other_processes_are_told_from_its_own(seen: tuple[int, ...], contended: bool) -> None:
    assert is_contended(seen, {100, 101, 99}) is contended


# ---- roofs ----
H200 = DeviceInfo(
    name="NVIDIA H200",
    device_class="gpu",
    compute_capability=(9, 0),
    theoretical=Ceilings(gflops=peak_gflops((9, 0), 132, 1_980_000)),
)


@pytest.mark.parametrize(
    ("dtype", "accuracy", "tflops"),  # of NVIDIA's data sheet
    [
        ("float32", "fp32", 67),
        ("float32", "tf32", 495),
        ("float32", "bf16", 989),
        ("float32", "fp16", 989),
        ("float16", "tf32", 989),
        ("bfloat16", "bf16", 989),
        ("float8_e4m3", "fp8", 1979),
        ("float64", "fp64", 67),
        ("int8", "exact", 1979),
    ],
)
def test_a_roof_is_that_of_the_units_that_keep_the_accuracy(
    dtype: DTypeName, accuracy: AccuracyName, tflops: float
) -> None:
    roof = theoretical_gflops(H200, accuracy, dtype)
    assert roof is not None and roof / 1e3 == pytest.approx(tflops, rel=0.12)


def test_a_product_of_several_has_their_units_roof() -> None:
    """Six int8 products for one of float32: four and a half times what CUDA cores can do."""
    emulated, plain = (roof_of(BY_NAME[name], H200, "fp32", "float32") for name in ("fp32_emulated", "pipelined"))
    assert emulated is not None and emulated / 1e3 == pytest.approx(1979 / 6, rel=0.12)
    assert plain == theoretical_gflops(H200, "fp32", "float32")
    unknown = H200.model_copy(update={"theoretical": Ceilings()})
    assert roof_of(BY_NAME["fp32_emulated"], unknown, "fp32", "float32") is None


def test_an_unknown_roof_is_unknown() -> None:
    new = H200.model_copy(update={"compute_capability": (99, 0), "theoretical": Ceilings()})
    assert theoretical_gflops(new, "tf32", "float32") is None
    turing = new.model_copy(
        update={"compute_capability": (7, 5), "theoretical": Ceilings(gflops=peak_gflops((7, 5), 40, 1_590_000))}
    )
    assert theoretical_gflops(turing, "tf32", "float32") is None
    assert theoretical_gflops(turing, "fp16", "float32") == turing.theoretical.gflops["float16"]


def test_cores_alone_never_do_more_than_the_device() -> None:
    assert CORE_MULTIPLY_ADDS.keys() == MULTIPLY_ADDS.keys()
    for capability, cores in CORE_MULTIPLY_ADDS.items():
        assert all(count <= MULTIPLY_ADDS[capability][dtype] for dtype, count in cores.items())
    assert core_gflops((9, 0), 132, 1980)["float64"] == pytest.approx(33_450, rel=0.01)
    assert core_gflops((99, 0), 132, 1980) == core_gflops((9, 0), 132, None) == {}


def test_the_link_is_known_by_generation_and_lanes() -> None:
    assert link_gb_s(5, 16) == pytest.approx(63, rel=0.01)
    assert link_gb_s(None, 16) is None and link_gb_s(5, None) is None and link_gb_s(99, 16) is None


# ---- the host ----
def test_a_record_says_when_and_with_what_packages() -> None:
    found = dated_environment("numpy", "no-such-package")
    assert found["versions"] == {"numpy": np.__version__, "no-such-package": None}
    assert datetime.fromisoformat(found["recorded_at"]).utcoffset() == timedelta(0)
    assert found["cpu"] == host_environment()["cpu"]


def test_the_host_says_what_it_is() -> None:
    found = host_environment()
    assert found["python"].startswith("3.") and found["numpy"] == np.__version__ and found["kernel_release"]
    assert variables({"CUPY_TF32": "1", "NVIDIA_TF32_OVERRIDE": "0", "PATH": "/bin"}) == {
        "CUPY_TF32": "1",
        "NVIDIA_TF32_OVERRIDE": "0",
    }
