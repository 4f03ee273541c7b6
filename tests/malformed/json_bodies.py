"""Mutations of JSON: of its tree, and of its text where no tree writes what is wanted."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

from tests.malformed.values import BYTES, LITERALS, TEXTS, mangled, odd_value

PLACEHOLDER = "\ue000"  # stands where a literal comes that no encoder writes
# What some field somewhere is called, so that a field turns up where it has no place.
FIELDS = (
    *("a", "b", "c", "data", "random", "matrix", "job", "shape", "dtype", "seed", "kernel", "config", "accuracy"),
    *("verify", "transpose_a", "transpose_b", "preset", "kernels", "shapes", "sizes", "batch", "title", "tags"),
    *(
        "distribution",
        "baseline",
        "dtypes",
        "samples",
        "alpha",
        "beta",
        "bias",
        "activation",
        "output_dtype",
        "order",
        "__proto__",
        "block_m",
        "tile",
    ),
)


def mutated_json(body: bytes, rng: random.Random) -> bytes:
    """Of a JSON document; of any other bytes a few are changed."""
    try:
        tree = json.loads(body)
    except ValueError:
        return mangled(body, rng)
    match rng.randrange(10):
        case 0:
            return mangled(body, rng)
        case 1:
            return _with_a_key_twice(body, rng)
        case 2:
            return rng.choice((b" ", b"\xef\xbb\xbf", b"\x00", b"")) + body + rng.choice(BYTES)
        case 3:
            return body.decode().encode(rng.choice(("utf-16", "utf-32", "utf-8-sig")))
        case 4 | 5:
            return _with_a_literal(tree, rng)
        case _:
            for _ in range(rng.randint(1, 3)):
                tree = _with_another_node(tree, rng)
            return _written(tree)


def _written(tree: Any) -> bytes:
    return json.dumps(tree, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with every key or index in it."""
    if isinstance(tree, dict | list):
        for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _places(tree[key])


def _with_another_node(tree: Any, rng: random.Random) -> Any:
    tree = copy.deepcopy(tree)
    places = list(_places(tree))
    if not places:
        return odd_value(rng)
    parent, key = rng.choice(places)
    match rng.randrange(6):
        case 0:
            del parent[key]
        case 1 if isinstance(parent, dict):
            parent[rng.choice((*FIELDS, *TEXTS))] = odd_value(rng)
        case 2 if isinstance(parent, dict):
            parent[rng.choice((*FIELDS, *TEXTS))] = parent.pop(key)
        case 3:
            other, other_key = rng.choice(places)
            parent[key] = copy.deepcopy(other[other_key]) if other is not parent else [parent[key]]
        case _:
            parent[key] = odd_value(rng)
    return tree


def _with_a_literal(tree: Any, rng: random.Random) -> bytes:
    tree = copy.deepcopy(tree)
    if places := list(_places(tree)):
        parent, key = rng.choice(places)
        parent[key] = PLACEHOLDER
    else:
        tree = PLACEHOLDER
    return _written(tree).replace(f'"{PLACEHOLDER}"'.encode(), rng.choice(LITERALS).encode(), 1)


def _with_a_key_twice(body: bytes, rng: random.Random) -> bytes:
    return body.replace(b"{", b'{"%s":%s,' % (rng.choice(FIELDS).encode(), rng.choice(LITERALS).encode()), 1)
