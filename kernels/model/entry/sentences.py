"""Messages for callers when a kernel cannot run or a config does not fit."""

from __future__ import annotations

from collections.abc import Mapping


def describe_config(config: Mapping[str, int]) -> str:
    """A config as text, such as `block_m=64, block_n=64`."""
    return ", ".join(f"{name}={value}" for name, value in config.items())


def too_old(what: str, needed: tuple[int, int], had: tuple[int, int]) -> str:
    return f"{what} needs compute capability {_dotted(needed)}; this device has {_dotted(had)}."


def too_new(what: str, needed: tuple[int, int], had: tuple[int, int]) -> str:
    return (
        f"{what} needs compute capability {_dotted(needed)} itself, whose instructions no other has; this device has "
        f"{_dotted(had)}."
    )


def _dotted(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))


def no_groups(kernel: str, dtype: str) -> str:
    return f"{kernel} does not take group_sizes for {dtype}; take another kernel, or leave kernel out."


def wrong_scales(kernel: str, *, needed: bool) -> str:
    """The message for a kernel that takes no block scales or, if they are `needed`, only operands with them."""
    takes = "takes only operands with" if needed else "does not take operands with"
    return f"{kernel} {takes} block scales; take another kernel, or leave kernel out."
