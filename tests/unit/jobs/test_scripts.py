"""A script is sent with what it uses of the parts that scripts share."""

from __future__ import annotations

from pathlib import Path

from jobs.redis.scripts import _functions, _sources

COMMON = """-- What all share.
local small, large = 1, 2

local function twice(number) -- of use to `four_times`
  return 2 * number
end

-- Of use to a script.
local function four_times(number)
  return twice(twice(number))
end

local function unused()
  return large
end
"""


def test_only_what_is_used_comes_along_in_its_order(tmp_path: Path) -> None:
    (tmp_path / "common.lua").write_text(COMMON)
    (tmp_path / "plain.lua").write_text("#!lua\nreturn 1\n")
    (tmp_path / "some.lua").write_text("#!lua flags=no-writes\n-- Says why.\nreturn four_times(now())\n")
    sources = _sources("{clock_of_a_test}", tmp_path, None)
    assert "local function" not in sources["plain"]
    lines = [line for line in sources["some"].splitlines() if not line.startswith(" ")]
    assert lines == [
        "#!lua flags=no-writes",
        "local function now()",
        "end",
        "local function twice(number) -- of use to `four_times`",
        "end",
        "local function four_times(number)",
        "end",
        "-- Says why.",
        "return four_times(now())",
    ]


def test_numbers_stand_in_the_place_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "common.lua").write_text("local MOST, LEAST = 3, 1\nlocal FAR = 2 ^ 52 -- away\nlocal NEAR_US = 10e6\n")
    (tmp_path / "some.lua").write_text(
        "#!lua\nlocal function main()\n  return FAR - NEAR_US + MOST\nend\nreturn main(ARGV)\n"
    )
    text = _sources("{clock_of_a_test}", tmp_path, None)["some"]
    assert "return (2 ^ 52) - (10e6) + MOST" in text and "local MOST, LEAST = 3, 1" in text
    assert "FAR" not in text and "NEAR_US" not in text
    (tmp_path / "own.lua").write_text("#!lua\nlocal FAR, NEAR_US = 1, 2\nreturn FAR\n")
    assert "local FAR, NEAR_US = 1, 2\nreturn FAR" in _sources("{other_clock}", tmp_path, None)["own"]
    functions = _functions("{clock_of_a_test}", tmp_path, None, "prefix:")
    assert functions is not None
    *_, (*_, library) = functions.loading()
    assert "return (2 ^ 52) - (10e6) + MOST" in str(library) and "FAR =" not in str(library)
