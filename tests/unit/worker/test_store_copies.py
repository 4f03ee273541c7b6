"""Which way matrices take between the store and a GPU, on a device that is not there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from jobs.redis.embedded import EmbeddedServer
from tests.support.played.cases import outcomes_of

# Its rows are not whole blocks of 1024 bytes: of such a check would take the digests, and there is none here.
DENSE = {"m": 256, "n": 480, "k": 320, "dtype": "float32"}
PADDED = {"m": 301, "n": 353, "k": 299, "dtype": "float32"}
SQUARE = {"m": 450, "n": 450, "k": 450, "dtype": "float32"}
BYTES = {"m": 301, "n": 1001, "k": 999, "dtype": "int8"}
SMALL_PRODUCT = {"m": 70, "n": 80, "k": 2000, "dtype": "float64"}
UNSEEN = {"m": 700, "n": 800, "k": 900, "dtype": "float32"}  # as LARGER
LARGER = {"m": 3000, "n": 2500, "k": 1100, "dtype": "float16"}  # no slot that was used before has their lengths
SMALL = {"m": 30, "n": 45, "k": 21, "dtype": "float32"}
SMALL_BATCH = {"m": 16, "n": 18, "k": 20, "dtype": "float32", "batch": 5, "a_batched": True, "b_batched": True}
WHOLE_PARTS = {"m": 256, "n": 256, "k": 256, "dtype": "float32"}  # each matrix is a multiple of 16 KiB
COMPLEX = {"m": 520, "n": 520, "k": 530, "dtype": "complex64"}
CASES: dict[str, dict[str, Any]] = {
    "first": {"problem": DENSE},
    "again": {"problem": DENSE},
    "padded": {"problem": PADDED},
    "in groups": {"problem": BYTES},
    "in pieces": {"problem": {"m": 3001, "n": 3003, "k": 90, "dtype": "float32"}},
    "damaged": {"problem": DENSE, "faults": ["download"]},
    "after damage": {"problem": DENSE},
    "digested here": {"problem": DENSE, "here": True},
    "digested here, damaged": {"problem": DENSE, "here": True, "faults": ["download"]},
    "square": {"problem": SQUARE, "square": True},
    "square again": {"problem": SQUARE, "square": True},
    "small product": {"problem": SMALL_PRODUCT},
    "with c": {"problem": PADDED, "c": True},
    "with c again": {"problem": PADDED, "c": True},
    "with c in groups": {"problem": BYTES, "c": True},
    "with a row": {"problem": PADDED, "bias": [1, PADDED["n"]]},
    "with a column": {"problem": PADDED, "bias": [PADDED["m"], 1]},
    "chain": {"problem": SQUARE, "chain": True},
    "complex": {"problem": COMPLEX},
    "complex, transposed": {"problem": COMPLEX | {"transpose_a": True, "transpose_b": True, "conjugate_a": True}},
    "complex, by a library": {"problem": COMPLEX, "library": "finite"},
    "complex, by a library, infinite": {"problem": COMPLEX, "library": "infinite"},
    "inline": {"problem": SMALL, "inline": True},
    "inline in groups": {"problem": SMALL | {"dtype": "int8"}, "inline": True},
    "inline of bits": {"problem": SMALL | {"dtype": "bfloat16"}, "inline": True},
    "inline batch": {"problem": SMALL_BATCH, "inline": True},
    "inline with c": {"problem": SMALL, "inline": True, "c": True},
    "inline, launched again": {"problem": SMALL, "inline": True, "launches": 2},
    "stacked": {"problem": DENSE, "jobs": 3},
    "stacked, padded": {"problem": PADDED, "jobs": 3},
    "stacked in groups": {"problem": BYTES, "jobs": 2},
    "stacked of doubles": {"problem": {"m": 200, "n": 200, "k": 200, "dtype": "float64"}, "jobs": 4},
    "stacked, named": {"problem": SQUARE, "jobs": 3, "named": True},
    "stacked, named again": {"problem": SQUARE, "jobs": 3, "named": True},
    "stacked, digested here": {"problem": DENSE, "jobs": 3, "here": True},
    "stacked, an operand damaged": {"problem": PADDED, "jobs": 3, "flipped": 1},
    "stacked, an operand of whole parts damaged": {"problem": WHOLE_PARTS, "jobs": 3, "flipped": 1},
    "stacked, damaged on its way up": {"problem": DENSE, "jobs": 3, "faults": ["upload"]},
    "stacked, damaged on its way down": {"problem": DENSE, "jobs": 3, "faults": ["download"]},
    "stacked, not registered": {"problem": UNSEEN, "jobs": 2, "faults": ["register"]},
    "not registered": {"problem": LARGER, "faults": ["register"]},
}
STORED = ["results", "down by DMA", "up by DMA", "results"]


@dataclass(frozen=True, slots=True)
class Played:
    outcome: str
    calls: list[str]
    registered: int  # slots, at the end


@pytest.fixture(scope="module")
def played(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    directory = tmp_path_factory.mktemp("store")
    place = valkey.url, "played:", str(directory)
    outcomes = outcomes_of("tests.support.workers.played_cuda", CASES, place)
    return {name: Played(*found) for name, found in outcomes.items()}


def test_a_library_s_product_that_is_not_finite_is_made_again_as_a_real_one(played: dict[str, Played]) -> None:
    """As BLAS's complex product spoils the other part of an element, and its real one does not."""
    finite, infinite = (played[f"complex, by a library{of}"] for of in ("", ", infinite"))
    assert finite.outcome == infinite.outcome == "right"
    assert "complex64 520x520x530" in finite.calls and "float32 520x1040x1060" not in finite.calls
    assert infinite.calls.index("complex64 520x520x530") < infinite.calls.index("float32 520x1040x1060")


@pytest.mark.parametrize("name", ["complex", "complex, transposed"])
def test_a_complex_product_is_multiplied_as_a_real_one(played: dict[str, Played], name: str) -> None:
    assert played[name].outcome == "right"
    assert "real 520x1040x1060" in played[name].calls


@pytest.mark.parametrize("name", ["first", "padded", "in groups"])
def test_slots_are_copied_by_dma_both_ways(played: dict[str, Played], name: str) -> None:
    """Results are digests: those of the device's copies, and those of what is read back."""
    assert played[name].outcome == "right"
    copies = [call for call in played[name].calls if call.startswith(("up", "down", "results"))]
    assert copies[:2] == ["up by DMA"] * 2
    assert copies[2:] == STORED


def test_a_large_product_is_read_back_in_pieces(played: dict[str, Played]) -> None:
    assert played["in pieces"].outcome == "right"
    calls = played["in pieces"].calls
    copies = [call for call in calls if call.endswith("by DMA")]
    assert copies[:2] == ["up by DMA"] * 2, "the operands"
    # 36 MB come in two pieces of 16 MiB and one of 2.5; what came is read back before the next, and digested by 32 MiB.
    assert copies[2:] == [*["down by DMA", "up by DMA"] * 3, "up by DMA"]


def test_a_second_product_opens_nothing_and_registers_nothing(played: dict[str, Played]) -> None:
    first, again = played["first"], played["again"]
    assert first.calls.count("open") == 2 and first.calls.count("register") == 3 and first.registered == 3
    assert again.outcome == "right" and again.registered == 3
    assert again.calls == STORED


def test_a_matrix_times_itself_is_opened_once_or_not_at_all(played: dict[str, Played]) -> None:
    assert played["square"].outcome == played["square again"].outcome == "right"
    assert played["square"].calls.count("open") == 1 and played["square"].calls.count("up by DMA") == 2  # and read back
    assert "open" not in played["square again"].calls


def test_a_product_that_a_job_waits_for_is_not_copied_to_the_device_again(played: dict[str, Played]) -> None:
    assert played["chain"].outcome == "right"
    assert played["chain"].calls == ["register", *STORED]  # a slot for the second product, beside the first


def test_a_product_that_is_damaged_on_its_way_into_the_store_is_refused(played: dict[str, Played]) -> None:
    assert played["damaged"].outcome == "VerificationFailed"
    assert played["after damage"].outcome == "right"


def test_a_small_product_is_not_read_back(played: dict[str, Played]) -> None:
    assert played["digested here"].outcome == "right"
    assert played["digested here"].calls == ["results", "down by DMA"]
    assert played["digested here, damaged"].outcome == "VerificationFailed"


def test_a_product_without_a_slot_is_brought_back_in_pieces(played: dict[str, Played]) -> None:
    assert played["small product"].outcome == "right"
    assert "down by DMA" not in played["small product"].calls


@pytest.mark.parametrize("name", ["inline", "inline in groups", "inline of bits", "inline batch", "inline with c"])
def test_small_operands_go_together_and_the_product_comes_in_one_copy(played: dict[str, Played], name: str) -> None:
    """With an epilogue A·B comes, too: the check is of both."""
    assert played[name].outcome == "right"
    ups, downs = (sum(call.startswith(way) for call in played[name].calls) for way in ("up", "down"))
    assert (ups, downs) == (1, 2 if name == "inline with c" else 1)


def test_a_product_that_is_launched_again_is_copied_again(played: dict[str, Played]) -> None:
    assert played["inline, launched again"].outcome == "right"
    assert sum(call.startswith("down") for call in played["inline, launched again"].calls) == 2


@pytest.mark.parametrize("name", ["stacked", "stacked, padded", "stacked in groups", "stacked of doubles"])
def test_operands_of_several_jobs_are_copied_from_their_slots_and_each_product_to_its_own(
    played: dict[str, Played], name: str
) -> None:
    jobs = CASES[name]["jobs"]
    assert played[name].outcome == "right"
    copies = [call for call in played[name].calls if call.startswith(("up", "down"))]
    assert copies[: 2 * jobs] == ["up by DMA"] * 2 * jobs and copies.count("down by DMA") == jobs


def test_copies_that_stay_on_the_device_are_stacked_there(played: dict[str, Played]) -> None:
    """B is the same of all three jobs, and nothing is opened for the second launch."""
    first, again = played["stacked, named"], played["stacked, named again"]
    assert first.outcome == again.outcome == "right"
    assert (first.calls.count("open"), again.calls.count("open")) == (4, 0)
    assert first.calls.count("across") == again.calls.count("across") == 6


def test_products_of_several_jobs_that_are_small_are_not_read_back(played: dict[str, Played]) -> None:
    assert played["stacked, digested here"].outcome == "right"
    assert played["stacked, digested here"].calls.count("up by DMA") == 6, "the operands"


@pytest.mark.parametrize(
    "name",
    [
        "stacked, an operand damaged",
        "stacked, an operand of whole parts damaged",
        "stacked, damaged on its way up",
    ],
)
def test_an_operand_of_one_job_that_is_damaged_is_noticed(played: dict[str, Played], name: str) -> None:
    assert played[name].outcome == "OperandDamaged"


def test_a_product_of_one_job_that_is_damaged_on_its_way_is_noticed(played: dict[str, Played]) -> None:
    assert played["stacked, damaged on its way down"].outcome == "VerificationFailed"


def test_where_nothing_can_be_registered_each_product_comes_through_buffers(played: dict[str, Played]) -> None:
    assert played["stacked, not registered"].outcome == "right"
    assert not [call for call in played["stacked, not registered"].calls if "DMA" in call]


def test_operand_c_goes_the_way_of_the_others(played: dict[str, Played]) -> None:
    """It is copied once, kept, and its digest compared; the product of a type in groups lies as an operand does."""
    names = ("with c", "with c again", "with c in groups")
    assert [played[name].outcome for name in names] == ["right"] * 3
    first, again = played["with c"].calls, played["with c again"].calls
    assert (first.count("open"), again.count("open")) == (1, 0), "a and b were kept from before"
    assert first.count("up by DMA") == again.count("up by DMA") + 1


def test_a_bias_has_its_digest_compared_and_the_product_its_own_type(played: dict[str, Played]) -> None:
    assert [played[name].outcome for name in ("with a row", "with a column")] == ["right"] * 2
    assert played["with a row"].calls.count("open") == 1, "a and b were kept from before"


def test_where_nothing_can_be_registered_copies_go_through_buffers(played: dict[str, Played]) -> None:
    assert played["not registered"].outcome == "right"
    assert not [call for call in played["not registered"].calls if "DMA" in call]
