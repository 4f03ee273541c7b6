"""The config of a product that requests none: an entry's defaults, device by device."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from kernels.model.architectures import ARCHITECTURES, Architecture
from kernels.model.buckets import EXAMPLES, BucketName
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.kernel import CudaKernel, DeviceTraits
from kernels.model.numerics import DTypeName, Problem


@dataclass(frozen=True, slots=True)
class DefaultConfig:
    """What runs for a bucket's products of this element type on this architecture."""

    architecture: Architecture
    dtype: DTypeName
    bucket: BucketName
    config: TileConfig


def example(bucket: BucketName, dtype: DTypeName) -> Problem:
    """A product of that bucket."""
    m, n, k, batch = EXAMPLES[bucket]
    return Problem.in_batch(m, n, k, dtype, batch)


def main_dtype(kernel: CudaKernel) -> DTypeName:
    """The element type that its figures are shown for."""
    return "float32" if "float32" in kernel.dtypes else kernel.dtypes[0]


def default_configs(kernel: CudaKernel) -> Iterator[DefaultConfig]:
    """The default configs for each architecture that runs the kernel, element type and bucket. Raises ConfigError if
    none of them fits."""
    for architecture, dtype in itertools.product(ARCHITECTURES.values(), kernel.dtypes):
        if kernel.unsupported_because(architecture.traits, dtype) is None:
            for bucket in EXAMPLES:
                config = kernel.resolve_config(NO_CONFIG, example(bucket, dtype), architecture.traits)
                yield DefaultConfig(architecture, dtype, bucket, config)


def default_config(kernel: CudaKernel, device: DeviceTraits) -> TileConfig:
    """The default config for large products of the kernel's main element type."""
    return kernel.resolve_config(NO_CONFIG, example("large", main_dtype(kernel)), device)
