"""Products in tiles on GPUs that are not there: what reaches the product's memory, and what is noticed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.played.cases import outcomes_of

PLAIN = {"m": 120, "n": 130, "k": 90, "dtype": "float32"}
ODD = {"m": 301, "n": 203, "k": 171, "dtype": "bfloat16"}
BYTES = {"m": 150, "n": 170, "k": 190, "dtype": "int8"}
BATCH = {"m": 30, "n": 40, "k": 50, "dtype": "float64", "batch": 7, "a_batched": True, "b_batched": True}
SHARED = {"m": 30, "n": 40, "k": 50, "dtype": "float32", "batch": 6, "a_batched": True}
PARTS = {"m": 24, "n": 20, "k": 4096, "dtype": "float32"}  # a row of A is a part that has a digest
ROWS = {"m": 4300, "n": 20, "k": 16, "dtype": "float32"}  # computed as its rows come
PADDED = {"m": 611, "n": 563, "k": 301, "dtype": "float32"}
COMPLEX = {"m": 101, "n": 83, "k": 71, "dtype": "complex64"}
COMPLEX_TURNS = {"transpose_a": True, "transpose_b": True, "conjugate_a": True}
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "one tile": ({"problem": PLAIN, "parts": (1, 1, 1)}, "1 tiles"),
    "rows outside": ({"problem": PLAIN, "parts": (1, 3, 4)}, "12 tiles"),
    "columns outside": ({"problem": PLAIN, "parts": (1, 3, 4), "outer": "b"}, "12 tiles"),
    "odd": ({"problem": ODD, "parts": (1, 4, 3)}, "12 tiles"),
    "transposed": ({"problem": ODD | {"transpose_a": True, "transpose_b": True}, "parts": (1, 4, 3)}, "12 tiles"),
    "one transposed": ({"problem": PLAIN | {"transpose_b": True}, "parts": (1, 2, 5), "outer": "b"}, "10 tiles"),
    "in groups": ({"problem": BYTES, "parts": (1, 3, 3)}, "9 tiles"),
    "padded": ({"problem": PADDED, "parts": (1, 2, 3), "padded": 1}, "6 tiles"),
    "padded, transposed": (
        {"problem": PADDED | {"transpose_a": True, "transpose_b": True}, "parts": (1, 3, 2), "padded": 1},
        "6 tiles",
    ),
    "padded batch of bytes": ({"problem": BATCH | {"dtype": "int8", "k": 53}, "parts": (3, 1, 1)}, "3 tiles"),
    "a batch by items": ({"problem": BATCH, "parts": (3, 1, 1)}, "3 tiles"),
    "a batch by rows": ({"problem": BATCH, "parts": (7, 2, 2)}, "28 tiles"),
    "one B for all": ({"problem": SHARED, "parts": (3, 1, 1)}, "3 tiles"),
    "complex": ({"problem": COMPLEX, "parts": (1, 3, 4)}, "12 tiles"),
    "complex, columns outside": (
        {"problem": COMPLEX | {"dtype": "complex128"}, "parts": (1, 3, 4), "outer": "b"},
        "12 tiles",
    ),
    "complex, transposed": ({"problem": COMPLEX | COMPLEX_TURNS, "parts": (1, 4, 3)}, "12 tiles"),
    "complex, gone on with": ({"problem": COMPLEX, "parts": (1, 3, 4), "found": 5}, "7 tiles"),
    "complex, other bytes than were sent": ({"problem": COMPLEX, "parts": (1, 3, 4), "sent": 1}, "OperandDamaged"),
    "complex, a product that changed": ({"problem": COMPLEX, "parts": (1, 3, 4), "product": 1}, "VerificationFailed"),
    "parts": ({"problem": PARTS, "parts": (1, 4, 3)}, "12 tiles"),
    "parts, B whole": ({"problem": PARTS, "parts": (1, 4, 1)}, "4 tiles"),
    "parts, columns outside": (
        {"problem": PARTS | {"transpose_b": True}, "parts": (1, 3, 4), "outer": "b"},
        "12 tiles",
    ),
    "parts of a batch": ({"problem": PARTS | BATCH | {"k": 2048}, "parts": (3, 1, 1)}, "3 tiles"),
    "parts, gone on with": ({"problem": PARTS, "parts": (1, 4, 3), "found": 5}, "7 tiles"),
    "parts, other bytes than were sent": ({"problem": PARTS, "parts": (1, 4, 3), "sent": 1}, "OperandDamaged"),
    "parts, a panel that changed": ({"problem": PARTS, "parts": (1, 4, 3), "faults": ["panel"]}, "OperandDamaged"),
    "parts, a panel that came changed": (
        {"problem": PARTS, "parts": (1, 4, 3), "faults": ["upload"]},
        "OperandDamaged",
    ),
    "parts come once, the product again": ({"problem": PARTS, "parts": (1, 4, 1), "counts": 1}, "all bytes once"),
    "other panels come again, but for two at each turn": (
        {"problem": PARTS, "parts": (1, 3, 4), "counts": 1, "of_b": 4 / 4 + 2 * 2 / 4 + 1},
        "all bytes once",
    ),
    "parts on two devices": ({"problem": PARTS, "parts": (1, 4, 3), "devices": 2}, "12 tiles"),
    "parts of both on two devices": (
        {"problem": PARTS | {"transpose_b": True}, "parts": (1, 4, 3), "devices": 2},
        "12 tiles",
    ),
    "in slices": ({"problem": ROWS, "parts": (1, 2, 3)}, "6 tiles"),
    "in slices of bytes": ({"problem": ROWS | {"dtype": "int8"}, "parts": (1, 2, 3)}, "6 tiles"),
    "in slices, with C": ({"problem": ROWS, "parts": (1, 2, 3), "c": "each"}, "6 tiles"),
    "in slices on two devices": ({"problem": ROWS, "parts": (1, 2, 3), "devices": 2}, "6 tiles"),
    "two devices": ({"problem": PLAIN, "parts": (1, 4, 3), "devices": 2}, "12 tiles"),
    "three devices, columns outside": ({"problem": ODD, "parts": (1, 2, 6), "devices": 3, "outer": "b"}, "12 tiles"),
    "a batch by rows on two devices": ({"problem": BATCH, "parts": (7, 2, 2), "devices": 2}, "28 tiles"),
    "a batch by items on two devices": ({"problem": BATCH, "parts": (7, 1, 1), "devices": 2}, "7 tiles"),
    "one B for all on two devices": ({"problem": SHARED, "parts": (6, 2, 2), "devices": 2}, "24 tiles"),
    "alpha alone": ({"problem": PLAIN, "parts": (1, 3, 4), "c": "none"}, "12 tiles"),
    "alpha, beta and C": ({"problem": PLAIN, "parts": (1, 3, 4), "c": "each"}, "12 tiles"),
    "C, columns outside": ({"problem": PLAIN, "parts": (1, 3, 4), "outer": "b", "c": "each"}, "12 tiles"),
    "C of integers": ({"problem": BYTES, "parts": (1, 3, 3), "c": "each"}, "9 tiles"),
    "C on two devices": ({"problem": PLAIN, "parts": (1, 4, 3), "devices": 2, "c": "each"}, "12 tiles"),
    "one C for each item": ({"problem": BATCH, "parts": (7, 2, 2), "c": "each"}, "28 tiles"),
    "one C for several items": ({"problem": BATCH, "parts": (3, 1, 1), "c": "each"}, "3 tiles"),
    "one C for all, by items": ({"problem": BATCH, "parts": (3, 1, 1), "c": "all"}, "3 tiles"),
    "one C for all, by rows": ({"problem": BATCH, "parts": (7, 2, 2), "c": "all"}, "28 tiles"),
    "other bytes of C than were sent": (
        {"problem": PLAIN, "parts": (1, 3, 4), "c": "each", "sent_c": 1},
        "OperandDamaged",
    ),
    "C that changed after its use": (
        {"problem": PLAIN, "parts": (1, 3, 4), "c": "each", "faults": ["c"]},
        "OperandDamaged",
    ),
    "P that changed after its use": (
        {"problem": PLAIN, "parts": (1, 3, 4), "c": "each", "faults": ["p"]},
        "VerificationFailed",
    ),
    "an element of D that does not follow": (
        {"problem": PLAIN, "parts": (1, 3, 4), "c": "each", "faults": ["d"]},
        "VerificationFailed",
    ),
    "gone on with": ({"problem": PLAIN, "parts": (1, 3, 4), "found": 5}, "7 tiles"),
    "gone on with at the end": ({"problem": PLAIN, "parts": (1, 3, 4), "found": 12, "devices": 2}, "0 tiles"),
    "a tile of another operand": ({"problem": PLAIN, "parts": (1, 3, 4), "found": 5, "stale": 1}, "OperandDamaged"),
    "other bytes than were sent": ({"problem": PLAIN, "parts": (1, 3, 4), "sent": 1}, "OperandDamaged"),
    "a product that changed": ({"problem": PLAIN, "parts": (1, 3, 4), "product": 1}, "VerificationFailed"),
    "by a library": ({"problem": PLAIN, "parts": (1, 3, 4), "library": 1}, "12 tiles"),
    "by a library, on two devices": ({"problem": BATCH, "parts": (7, 2, 2), "devices": 2, "library": 1}, "28 tiles"),
    "by a library, with C": ({"problem": PLAIN, "parts": (1, 3, 4), "c": "each", "library": 1}, "12 tiles"),
    "by a library, changed afterwards": (
        {"problem": PLAIN, "parts": (1, 3, 4), "library": 1, "product": 1},
        "VerificationFailed",
    ),
    "by a library, of other bytes": ({"problem": PLAIN, "parts": (1, 3, 4), "library": 1, "sent": 1}, "OperandDamaged"),
    "by a library, an element of D that does not follow": (
        {"problem": PLAIN, "parts": (1, 3, 4), "c": "each", "library": 1, "faults": ["d"]},
        "VerificationFailed",
    ),
    "a panel that changed": ({"problem": PLAIN, "parts": (1, 3, 4), "faults": ["panel"]}, "OperandDamaged"),
    "a device that faults": ({"problem": PLAIN, "parts": (1, 4, 3), "devices": 2, "faults": ["device"]}, "DeviceFault"),
    "after it": ({"problem": PLAIN, "parts": (1, 4, 3), "devices": 2}, "12 tiles"),
    "a device that is stuck": (
        {"problem": PLAIN, "parts": (1, 4, 3), "devices": 2, "faults": ["stuck"]},
        "DeviceFault",
    ),
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    return outcomes_of("tests.support.workers.played_tiles", {name: case for name, (case, _) in CASES.items()})


@pytest.mark.parametrize("name", CASES)
def test_what_comes_of_it(outcomes: dict[str, str], name: str) -> None:
    assert outcomes[name] == CASES[name][1]
