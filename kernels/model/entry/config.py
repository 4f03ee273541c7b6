"""Tile configs, their parameters and constraints."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

TileConfig = Mapping[str, int]
NO_CONFIG: TileConfig = MappingProxyType({})

# Placeholders in sentences about one config.
_GIVEN = re.compile(r" = (?:\d+ × )?\{\w+\}(?: ?[×/] ?\{\w+\})*|, not \{\w+\}(?: and \{\w+\})*(?=\.)")


class ConfigError(ValueError):
    """A tile config that the kernel does not take; the message is a sentence for the caller."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One tile parameter: `block_m` here is the macro `BLOCK_M` in the CUDA source."""

    name: str
    values: tuple[int, ...]
    default: int
    summary: str
    compiled: bool = True  # False: the launch alone depends on it, and one binary serves all values


@dataclass(frozen=True, slots=True)
class Constraint:
    """A rule over a whole config, with the sentence a caller reads when it does not hold."""

    holds: Callable[[TileConfig], bool]
    sentence: str

    @property
    def rule(self) -> str:
        """About every config, out of the sentence about one: parameters' names for their values."""
        names = re.sub(r"\{(\w+)\}", r"\1", _GIVEN.sub("", self.sentence))
        return re.sub(r"\b(?:is|are) (?:none|not one) of\b:?", "must be one of", names)
