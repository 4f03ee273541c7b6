"""All targets, by name."""

from __future__ import annotations

from collections.abc import Mapping

from tests.fuzz.target import Target
from tests.fuzz.targets import benchmarks, heads, keys, matrices, products, records

FAMILIES = (matrices, products, benchmarks, heads, keys, records)
TARGETS: Mapping[str, Target] = {target.name: target for family in FAMILIES for target in family.TARGETS}
