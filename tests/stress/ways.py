"""The ways in which a run calls a kernel: few of each, so that few programs are compiled. Another seed gives others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from kernels.model.activations import ACTIVATION_NAMES, ActivationName
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.fused import FusedEpilogue
from kernels.model.kernel import CudaKernel, DeviceTraits, Kernel
from kernels.model.numerics import DTYPES, DTypeName
from kernels.model.outputs import multiplied_as

WAYS, LEAST = 12, 4  # of a kernel in a run, and of one of its types
TRANSPOSES = ((False, False), (False, True), (True, False), (True, True))
TRIES = 50  # configs that are tried for one that fits
FUSED_WAYS = 10  # of a kernel with an epilogue of its own
EACH = len(ACTIVATION_NAMES) + 1  # of a type: one with each activation, and one without
NO_ACTIVATION: tuple[ActivationName | None, ...] = (None,)


@dataclass(frozen=True, slots=True)
class Way:
    """An element type, what is transposed, and a config; an empty one is the default for the product."""

    dtype: DTypeName
    transposes: tuple[bool, bool]
    config: TileConfig


@dataclass(frozen=True, slots=True)
class FusedWay:
    """A kernel's own epilogue, and the way in which it is called with it."""

    way: Way
    fused: FusedEpilogue


def types_of(kernel: Kernel, device: DeviceTraits) -> Sequence[DTypeName]:
    """The element types that it multiplies there."""
    return [dtype for dtype in kernel.dtypes if kernel.unsupported_because(device, dtype) is None]


def ways_of(kernel: Kernel, dtype: DTypeName, seed: int, device: DeviceTraits) -> Sequence[Way]:
    """The default config first; all four transpositions."""
    random = Random(f"{seed}:{kernel.name}:{dtype}")
    every = list(kernel.configs())
    transposes = random.sample(TRANSPOSES, len(TRANSPOSES))
    found = []
    for number in range(max(LEAST, WAYS // len(types_of(kernel, device)))):
        tries = random.sample(every, min(len(every), TRIES)) if number else []
        fit = (config for config in tries if kernel.misfit(config, dtype, device) is None)
        config = next(fit, NO_CONFIG)
        if number % 4 and config and "min_side" in config:  # most products are too small for another one
            config = {**config, "min_side": min(each["min_side"] for each in every)}
        found.append(Way(dtype, transposes[number % len(transposes)], config))
    return found


def fused_ways_of(kernel: Kernel, dtype: DTypeName, ways: Sequence[Way], seed: int) -> Iterator[FusedWay]:
    """None where it has no epilogue of its own. C and a bias have the product's type, and are added where that is what
    is stored."""
    if not isinstance(kernel, CudaKernel):
        return
    random = Random(f"{seed}:{kernel.name}:fused")
    # 16-bit operands are delivered in float32 by way of a product that is widened.
    outputs = [each for each in kernel.fused_outputs.get(dtype, ()) if multiplied_as(dtype, each) == dtype]
    for number in range(max(FUSED_WAYS, EACH * len(outputs)) if outputs else 0):
        yield FusedWay(ways[number % len(ways)], fused_epilogue(random, number, outputs, DTYPES[dtype].product))


def fused_epilogue(random: Random, number: int, outputs: Sequence[DTypeName], product: DTypeName) -> FusedEpilogue:
    """Of consecutive numbers each output and each activation has its turn. `product`: the type of what is added."""
    output = outputs[number // EACH % len(outputs)]
    is_shorter = DTYPES[output].itemsize < DTYPES[product].itemsize
    activations = NO_ACTIVATION if is_shorter else (*NO_ACTIVATION, *ACTIVATION_NAMES)
    has_c, has_bias = (output == product and random.random() < 0.5 for _ in range(2))
    return FusedEpilogue(output, has_c, has_bias, activations[number % len(activations)])
