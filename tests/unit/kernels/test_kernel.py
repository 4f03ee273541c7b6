"""Catalogue entries: their configs, their defaults, and what fits a device."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.catalog import BY_NAME, CATALOG
from kernels.model.arrange import tile_grid
from kernels.model.buckets import BUCKET_NAMES, EXAMPLES, BucketName, bucket_of
from kernels.model.entry.config import ConfigError, Constraint, Parameter, TileConfig
from kernels.model.kernel import CudaKernel, Default, DeviceTraits, Kernel, LibraryKernel
from kernels.model.numerics import DTYPES, OWN_ACCURACY, DTypeName, Problem
from kernels.selection.defaults import default_configs, example

SMALL_GPU = DeviceTraits("gpu", (7, 5), 48 * 1024)
LARGE_GPU = DeviceTraits("gpu", (9, 0), 227 * 1024)
UNKNOWN_GPU = DeviceTraits("gpu", (9, 0))  # one that does not say how much shared memory it has
LARGE = Problem(4096, 4096, 4096, "float32")

TOY = CudaKernel(
    name="toy",
    summary="Square tiles.",
    idea="None.",
    origin="This test.",
    accuracy=OWN_ACCURACY,
    parameters=(
        Parameter("tile", (16, 32, 64, 128, 256), 32, "rows and columns of the tile"),
        Parameter("thread_n", (1, 8, 64, 256), 1, "columns of a thread"),
    ),
    constraints=(Constraint(lambda c: c["thread_n"] <= c["tile"], "thread_n = {thread_n} exceeds tile = {tile}."),),
    defaults=(
        Default(config={"tile": 128, "thread_n": 8}, buckets=("large",), min_compute_capability=(8, 0)),
        Default(config={"tile": 64, "thread_n": 64}, buckets=("medium", "large"), dtypes=("float32", "int32")),
        Default(config={"tile": 16, "thread_n": 8}, buckets=("wide", "tall", "deep")),
    ),
    arrange=lambda problem, c: tile_grid(problem, (c["tile"], c["tile"]), (32, 8)),
    shared_bytes=lambda c, dtype: c["tile"] * c["tile"] * DTYPES[dtype].accumulator_bytes,
    accumulators=lambda c: c["thread_n"],
)


def config(tile: int, thread_n: int) -> TileConfig:
    return {"tile": tile, "thread_n": thread_n}


def resolved(asked: TileConfig, device: DeviceTraits | None = LARGE_GPU, **product: object) -> TileConfig:
    return TOY.resolve_config(asked, replace(LARGE, **product), device)  # type: ignore[arg-type]


def test_configs_are_all_that_the_rules_allow() -> None:
    configs = list(TOY.configs())
    assert configs == [config(t, n) for t in (16, 32, 64, 128, 256) for n in (1, 8, 64, 256) if n <= t]
    assert all(TOY.resolve_config(each) == each for each in configs)
    assert list(BY_NAME["cpu_blas"].configs()) == [{}]


def test_without_a_product_parameters_have_their_own_defaults() -> None:
    assert TOY.resolve_config() == config(32, 1)
    assert TOY.resolve_config({"tile": 64}) == config(64, 1)
    assert TOY.resolve_config({}, LARGE) == config(32, 1)


def test_a_product_on_a_device_has_the_first_default_that_suits() -> None:
    assert resolved({}) == config(128, 8)
    assert resolved({}, replace(LARGE_GPU, compute_capability=(7, 5))) == config(64, 64)
    assert resolved({}, m=1024, n=1024) == config(64, 64)
    assert resolved({}, m=1024, n=1024, dtype="float16") == config(32, 1)
    assert resolved({}, m=16, n=16) == config(16, 8)
    assert resolved({}, m=600, n=600) == config(32, 1)


def test_what_was_asked_is_filled_up_from_a_default_that_goes_with_it() -> None:
    assert resolved({"tile": 64}) == config(64, 8)
    assert resolved({"tile": 16}) == config(16, 8)
    assert resolved({"thread_n": 64}) == config(128, 64)
    assert resolved({"tile": 32, "thread_n": 1}) == config(32, 1)
    with pytest.raises(ConfigError, match="thread_n = 256 exceeds tile = 128"):
        resolved({"thread_n": 256})


def test_a_default_that_does_not_fit_is_passed_over() -> None:
    assert resolved({}, replace(LARGE_GPU, shared_bytes_per_block=128 * 128 * 4)) == config(128, 8)
    assert resolved({}, replace(LARGE_GPU, shared_bytes_per_block=128 * 128 * 4 - 1)) == config(64, 64)
    assert resolved({}, replace(LARGE_GPU, shared_bytes_per_block=64 * 64 * 4 - 1)) == config(32, 1)
    assert resolved({}, UNKNOWN_GPU) == config(128, 8)


def test_what_fits_nowhere_is_refused_with_the_numbers() -> None:
    with pytest.raises(ConfigError) as refused:
        resolved({"tile": 256})
    assert str(refused.value) == (
        "toy with tile=256, thread_n=8 needs 262144 bytes of shared memory a block for float32; the device has 232448; "
        "take smaller tiles."
    )
    with pytest.raises(ConfigError) as refused:
        resolved(config(256, 256), None)
    assert str(refused.value) == (
        "toy with tile=256, thread_n=256 keeps 256 registers of float32 sums in a thread, which has 224 for them; take "
        "smaller thread tiles."
    )


def test_wide_sums_take_two_registers() -> None:
    toy = replace(TOY, accumulators=lambda c: 2 * c["thread_n"])
    for dtype in DTYPES:
        assert (toy.misfit(config(64, 64), dtype) is not None) == (dtype == "float64")


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"tiles": 8}, "toy has no parameter 'tiles'; it has: tile, thread_n."),
        ({"tile": 8}, "tile=8 is not allowed for toy; allowed values: 16, 32, 64, 128, 256."),
        ({"tile": 16, "thread_n": 64}, "thread_n = 64 exceeds tile = 16."),
    ],
)
def test_what_is_not_allowed_is_refused_in_words(asked: TileConfig, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        resolved(asked)
    assert str(refused.value) == sentence


def test_a_library_has_no_parameters() -> None:
    library = next(kernel for kernel in CATALOG if isinstance(kernel, LibraryKernel))
    assert library.misfit({}, "float32", SMALL_GPU) is None
    with pytest.raises(ConfigError, match="it has: none"):
        library.resolve_config({"tile": 16})


asked_configs = st.fixed_dictionaries({}, optional={p.name: st.sampled_from(p.values) for p in TOY.parameters})


@given(asked_configs, st.sampled_from(list(DTYPES)), st.sampled_from(BUCKET_NAMES), st.integers(1, 1 << 18))
def test_what_was_asked_is_kept_and_fits_or_no_default_makes_it_fit(
    asked: dict[str, int], dtype: DTypeName, bucket: BucketName, shared_bytes: int
) -> None:
    device = DeviceTraits("gpu", (8, 0), shared_bytes)

    def works(full: TileConfig) -> bool:
        return TOY.constraints[0].holds(full) and TOY.misfit(full, dtype, device) is None

    try:
        found = TOY.resolve_config(asked, example(bucket, dtype), device)
    except ConfigError:
        assert not any(works({**start.config, **asked}) for start in TOY.defaults)
        assert not works({**config(32, 1), **asked})
    else:
        assert asked.items() <= found.items()
        assert works(found)


def test_a_default_suits_by_shape_element_type_and_device() -> None:
    default = Default(config={}, buckets=("large",), dtypes=("float32",), min_compute_capability=(8, 0))
    assert default.suits(LARGE, bucket_of(LARGE), LARGE_GPU)
    assert default.suits(LARGE, bucket_of(LARGE), replace(LARGE_GPU, compute_capability=(8, 0)))
    assert not default.suits(LARGE, bucket_of(LARGE), SMALL_GPU)
    assert not default.suits(replace(LARGE, dtype="float64"), bucket_of(replace(LARGE, dtype="float64")), LARGE_GPU)
    assert not default.suits(LARGE, "medium", LARGE_GPU)
    assert replace(default, buckets=BUCKET_NAMES).suits(LARGE, "medium", LARGE_GPU)


@pytest.mark.parametrize("bucket", EXAMPLES)
def test_examples_are_in_their_bucket(bucket: BucketName) -> None:
    assert bucket_of(example(bucket, "float32")) == bucket


@pytest.mark.parametrize(
    ("m", "n", "k", "batch", "bucket"),
    [
        (1, 1, 1, 1, "small"),
        (64, 512, 64, 1, "wide"),
        (64, 511, 64, 1, "small"),
        (65, 8192, 65, 1, "small"),
        (65, 65, 8192, 1, "deep"),
        (513, 513, 8192, 1, "small"),
        (64, 64, 512, 1, "deep"),
        (64, 64, 511, 1, "small"),
        (1, 1536 * 1536, 1, 1, "wide"),
        (1, 1536 * 1536 + 1, 1, 1, "large"),
        (64, 64, 512, 576, "deep"),
        (64, 64, 512, 577, "batched"),
        (64, 64, 64, 1024, "batched"),
        (32, 32, 32, 4096, "batched"),
        (128, 128, 64, 37, "batched"),
        (128, 129, 64, 37, "medium"),
        (1, 128, 64, 1 << 20, "batched"),
        (768, 768, 9999, 1, "small"),
        (768, 769, 1, 1, "medium"),
        (1536, 1536, 1, 1, "medium"),
        (1536, 1537, 1, 1, "large"),
        (128, 128, 64, 36, "small"),
    ],
)
def test_buckets_go_by_shape(m: int, n: int, k: int, batch: int, bucket: BucketName) -> None:
    product = Problem(m, n, k, "float32", batch)
    assert bucket_of(product) == bucket
    turned = {"wide": "tall"}.get(bucket, bucket)
    assert bucket_of(replace(product, m=n, n=m)) == turned


@pytest.mark.parametrize("kernel", [k for k in CATALOG if isinstance(k, CudaKernel)], ids=lambda kernel: kernel.name)
def test_a_request_without_config_has_one_that_fits(kernel: CudaKernel) -> None:
    """On each architecture that runs the kernel, in each element type and bucket."""
    allowed = list(kernel.configs())
    defaults = list(default_configs(kernel))
    assert {default.dtype for default in defaults} == set(kernel.dtypes)
    for default in defaults:
        assert default.config in allowed
        assert kernel.misfit(default.config, default.dtype, default.architecture.traits) is None


@pytest.mark.parametrize("kernel", CATALOG, ids=lambda kernel: kernel.name)
def test_every_declared_default_is_allowed(kernel: Kernel) -> None:
    allowed = list(kernel.configs())
    assert all(kernel.resolve_config(default.config) in allowed for default in kernel.defaults)
