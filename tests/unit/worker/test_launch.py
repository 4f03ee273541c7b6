"""What is put on the stream for a product, in which order, and what may overlap; on a device that is not there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.played.cases import outcomes_of

SQUARE = {"m": 1024, "n": 1024, "k": 1024}
CASES: dict[str, dict[str, Any]] = {
    "plain": {"kernel": "naive", "problem": SQUARE | {"dtype": "float32"}},
    "transposed before": {"kernel": "hopper_fp32", "problem": SQUARE | {"dtype": "float32"}},
    "as it wants them": {"kernel": "hopper_fp32", "problem": SQUARE | {"dtype": "float32", "transpose_a": True}},
    "digits": {"kernel": "fp32_emulated", "problem": SQUARE | {"dtype": "float32"}},
    "too small for digits": {"kernel": "fp32_emulated", "problem": {"m": 1024, "n": 1024, "k": 63, "dtype": "float32"}},
    "remainders": {"kernel": "fp64_emulated", "problem": SQUARE | {"dtype": "float64"}},
    "too small for remainders": {
        "kernel": "fp64_emulated",
        "problem": {"m": 1024, "n": 63, "k": 1024, "dtype": "float64"},
    },
    "complex remainders": {
        "kernel": "complex_as_real",
        "problem": SQUARE | {"dtype": "complex128", "transpose_a": True, "conjugate_b": True},
        "config": {"emulated": 1},
    },
    "edge": {"kernel": "tensor_fp64", "problem": {"m": 4097, "n": 4096, "k": 512, "dtype": "float64"}},
    "rows out of reach": {"kernel": "hopper_bf16", "problem": {"m": 333, "n": 333, "k": 333, "dtype": "bfloat16"}},
}
CASES["again"] = CASES["plain"] | {"times": 3}
CASES["digits again"] = CASES["digits"] | {"times": 2}
CASES["remainders again"] = CASES["remainders"] | {"times": 2}
CASES["edge"]["config"] = {"edge": 8}
CASES["rows out of reach"]["dense"] = True


@pytest.fixture(scope="module")
def driver_calls() -> dict[str, list[dict[str, Any]]]:
    """The driver's calls for each case, behind the addresses of the matrices that they are for."""
    return outcomes_of("tests.support.kernels.launched", CASES)


@pytest.fixture(scope="module")
def launched(driver_calls: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Without what the cases were given."""
    return {name: [one for one in calls if one["call"] != "product"] for name, calls in driver_calls.items()}


def names(calls: list[dict[str, Any]]) -> list[str]:
    return [one["call"] for one in calls]


def overlapping(calls: list[dict[str, Any]]) -> list[str]:
    return [one["call"] for one in calls if one.get("dependent")]


def test_a_plain_kernel_is_one_launch_of_addresses_and_sizes(launched: dict[str, list[dict[str, Any]]]) -> None:
    (call,) = launched["plain"]
    assert not call["dependent"] and call["maps"] == []
    assert call["numbers"][3:6] == [1024, 1024, 1024] and call["numbers"][-1] == 1  # m, n, k; batch


def test_an_operand_is_transposed_first_and_the_kernel_overlaps_that(launched: dict[str, list[dict[str, Any]]]) -> None:
    calls = launched["transposed before"]
    assert names(calls)[0] == "transpose" and names(calls)[-1] == "hopper_fp32"
    assert overlapping(calls) == ["hopper_fp32"]
    assert overlapping(launched["as it wants them"]) == []
    assert "transpose" not in names(launched["as it wants them"])


def test_passes_overlap_each_other_and_the_fallback_looks_at_the_verdict(
    launched: dict[str, list[dict[str, Any]]],
) -> None:
    calls = launched["digits"]
    passes = ["emulated_measure", "emulated_judge", "emulated_split", "fp32_emulated", "emulated_lines"]
    assert names(calls) == ["memset", *passes, "transpose", "hopper_fp32"]
    assert overlapping(calls) == [*passes[1:], "transpose", "hopper_fp32"]  # not the first: a memset lets nobody begin
    workspace = calls[1]["numbers"][-1]
    assert all(call["numbers"][-1] == workspace for call in calls[1:6])
    assert all(call["gated"] and call["numbers"][-1] == workspace for call in calls[6:])


def test_float64_behind_remainders_looks_at_the_verdict(launched: dict[str, list[dict[str, Any]]]) -> None:
    """Its gate comes after its own workspace, and it waits for all that is before it."""
    calls = launched["remainders"]
    passes = ["residue_measure", "residue_judge", "residue_split", "fp64_emulated", "residue_join"]
    assert names(calls) == ["memset", *passes, "tensor_fp64"] and overlapping(calls) == passes[1:]
    workspace = calls[1]["numbers"][-1]
    assert all(call["numbers"][-1] == workspace for call in calls[1:6])
    behind = calls[-1]
    assert behind["gated"] and behind["numbers"][-1] == workspace and behind["numbers"][-2] != workspace
    assert behind["numbers"][3:6] == [1024, 1024, 1024]
    again = launched["remainders again"]
    assert len(again) == 2 * len(calls)
    for half in (again[: len(calls)], again[len(calls) :]):
        assert half[-1]["numbers"][-1] == half[1]["numbers"][-1]
    alone = launched["too small for remainders"]
    assert names(alone) == ["tensor_fp64"] and not alone[0]["gated"]


def test_complex_remainders_read_operands_as_they_lie(driver_calls: dict[str, list[dict[str, Any]]]) -> None:
    """Their fallback multiplies a real product, whose operands are arranged where the verdict says so."""
    product, memset, *calls = driver_calls["complex remainders"]
    passes = ["residue_measure", "residue_judge", "residue_split", "fp64_emulated", "residue_join"]
    assert memset["call"] == "memset"
    assert names(calls) == [*passes, "complex_rows", "complex_blocks", "tensor_fp64"]
    assert overlapping(calls) == passes[1:]
    workspace = calls[0]["numbers"][-1]
    for call in calls[:5]:
        assert call["numbers"][:6] == [*product["numbers"], 1024, 1024, 1024] and call["numbers"][-1] == workspace
        assert call["numbers"][6:9] == [2048, 2048, 2048]  # pitches in numbers
    rows, blocks, behind = calls[5:]
    assert all(call["gated"] and call["numbers"][-1] == workspace for call in (rows, blocks, behind))
    assert [rows["numbers"][0], blocks["numbers"][0]] == product["numbers"][:2]
    assert behind["numbers"][:3] == [rows["numbers"][1], blocks["numbers"][1], product["numbers"][2]]
    assert behind["numbers"][3:6] == [1024, 2048, 2048]


def test_where_the_fallback_always_multiplies_nothing_else_is_launched(
    launched: dict[str, list[dict[str, Any]]],
) -> None:
    calls = launched["too small for digits"]
    assert names(calls) == names(launched["transposed before"]) and not any(call.get("gated") for call in calls)


def test_an_edge_is_multiplied_beside_the_kernel(launched: dict[str, list[dict[str, Any]]]) -> None:
    calls = launched["edge"]
    assert names(calls) == ["tensor_fp64", "edge"] and overlapping(calls) == ["edge"]
    assert calls[0]["numbers"][3:5] == [4096, 4096] and calls[1]["numbers"][3:5] == [4097, 4096]
    assert calls[1]["numbers"][-2:] == [4096, 4096]  # where the edge begins


def test_rows_that_bulk_copies_do_not_reach_are_copied(launched: dict[str, list[dict[str, Any]]]) -> None:
    """By CuPy's own copy, which is no kernel."""
    (call,) = launched["rows out of reach"]
    assert call["call"] == "hopper_bf16" and len(call["maps"]) == 3 and call["numbers"][:3] == [333, 333, 333]


def test_what_was_packed_once_is_pointed_to_the_matrices_of_each_launch(
    driver_calls: dict[str, list[dict[str, Any]]],
) -> None:
    asked, called = driver_calls["again"][::2], driver_calls["again"][1::2]
    assert len(asked) == 3 and len({tuple(one["numbers"]) for one in asked}) == 3
    assert [one["numbers"][:3] for one in called] == [one["numbers"] for one in asked]
    assert len({tuple(one["numbers"][3:]) for one in called}) == 1


def test_maps_and_gates_too(driver_calls: dict[str, list[dict[str, Any]]]) -> None:
    """Of a kernel that may fall back: B is transposed for what takes its place, or nothing is done."""
    calls = driver_calls["digits again"]
    half = len(calls) // 2
    for product, *together in (calls[:half], calls[half:]):
        a, b, c = product["numbers"]
        by_name = {one["call"]: one for one in together}
        main, behind, transpose = (by_name[name] for name in ("fp32_emulated", "hopper_fp32", "transpose"))
        workspace = main["numbers"][-1]
        assert behind["numbers"][-1] == transpose["numbers"][-1] == workspace
        source, to = transpose["numbers"][:2]
        assert source in (a, b) and behind["maps"][:3] == [to if each == source else each for each in (a, b, c)]
    assert calls[2]["numbers"] != calls[half + 2]["numbers"]


def test_a_repeated_launch_makes_nothing_anew(driver_calls: dict[str, list[dict[str, Any]]]) -> None:
    """Few functions are called: each word of the arguments that changes, each map, each launch."""
    assert driver_calls["again"][-1]["functions"] < 15
    assert driver_calls["digits again"][-1]["functions"] < 60
    assert driver_calls["again"][-1]["functions"] < driver_calls["plain"][-1]["functions"] / 2


@pytest.mark.parametrize("case", [name for name in CASES if not CASES[name].get("dense")])
def test_what_a_launch_allocates_was_foretold(driver_calls: dict[str, list[dict[str, Any]]], case: str) -> None:
    """Beside the matrices; within what rounding up each piece of memory comes to. Admission asks for as much."""
    for product in (one for one in driver_calls[case] if one["call"] == "product"):
        assert product["predicted"] <= product["allocated"] <= product["predicted"] + 4 * 512
    needs_some = case in ("transposed before", "digits", "digits again", "remainders", "remainders again")
    assert (driver_calls[case][0]["predicted"] > 0) >= needs_some
