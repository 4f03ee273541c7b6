"""The leaderboard as a page and over HTTP, and published runs in front: none of it needs a GPU."""

from __future__ import annotations

import re

import httpx

from kernels.published import PUBLISHED
from tests.integration.api.test_benchmark_results import done
from tests.integration.api.test_jobs import problem
from tests.support.http.pages import assert_no_dead_links, get
from tools.harness.api import Api

BF16 = "/v1/leaderboard?dtype=bfloat16&size=4096"


def test_a_board_says_who_is_fastest_and_where_the_library_stands(browser: httpx.Client) -> None:
    boards = {each["device"]: each for each in browser.get(BF16).raise_for_status().json()["boards"]}
    board = boards["NVIDIA H200"]
    assert (board["n"], board["accuracy"]) == (4096, "bf16")
    rows = {row["kernel"]: row for row in board["rows"]}
    assert rows.keys() == {"hopper_bf16", "cublas", "cublas_tuned"} and rows["cublas"]["is_library"]
    share = rows["hopper_bf16"]["fraction_of_library"]
    assert share["lo"] <= share["value"] <= share["hi"]
    assert rows["hopper_bf16"]["rank"] == 1, "their samples do not tell them apart"


def recorded(browser: httpx.Client, board: str, kernel: str) -> list[float]:
    """GFLOPS of a kernel on an H200."""
    boards = browser.get(board).raise_for_status().json()["boards"]
    rows = [row for each in boards if each["device"] == "NVIDIA H200" for row in each["rows"]]
    return [row["gflops"] for row in rows if row["kernel"] == kernel]


def test_it_is_sent_once_to_who_has_it(browser: httpx.Client) -> None:
    etag = browser.get(BF16).headers["etag"]
    assert browser.get(BF16, headers={"if-none-match": etag}).status_code == 304
    assert browser.get("/v1/leaderboard", headers={"if-none-match": etag}).status_code == 200


def test_what_nobody_measured_has_no_board(browser: httpx.Client) -> None:
    assert browser.get("/v1/leaderboard?size=12345").json() == {"boards": []}
    problem(browser.get("/v1/leaderboard?dtype=float99"), 422, "invalid_request")
    for size in ("", "x", "-1", "1x2", "1x2x3x4", "4096 "):
        refusal = problem(browser.get("/v1/leaderboard", params={"size": size}), 422, "invalid_request")
        assert refusal["field"] == "size" and "such as 16×8192×8192" in refusal["detail"]
    skinny = [browser.get("/v1/leaderboard", params={"size": f"1{x}8192{x}8192"}).json()["boards"] for x in "x×"]
    assert skinny[0] == skinny[1] != []
    get(browser, "/ui/leaderboard?size=12345", 404)


def test_the_page_opens_on_what_most_ask_for(browser: httpx.Client) -> None:
    page = get(browser, "/ui/leaderboard")
    (ours, *_) = recorded(browser, BF16, "hopper_bf16")
    assert "bfloat16 at N = 4096 on NVIDIA H200" in page.text
    assert f"hopper_bf16 : {ours / 1000:.1f} TFLOP/s" in page.text
    assert_no_dead_links(browser, page)


def test_a_row_is_one_click_from_its_record(browser: httpx.Client) -> None:
    page = get(browser, "/ui/leaderboard?dtype=float32&accuracy=fp32&size=4097")
    padded = next(link for link in page.links if "kernel=cublas&" in link and "size=4160" in link)
    records = get(browser, padded.partition("#")[0])
    assert re.search(r"1 of \d+ records", records.text) and "4160" in records.text
    own = next(link for link in page.links if "kernel=hopper_fp32&" in link)
    (ours, *_) = recorded(browser, "/v1/leaderboard?dtype=float32&size=4097", "hopper_fp32")
    text = get(browser, own.partition("#")[0]).text.replace("\u202f", " ")
    assert f"{ours:,.0f}".replace(",", " ") in text


def test_types_are_listed_device_by_device(browser: httpx.Client) -> None:
    text = get(browser, "/ui/leaderboard").text
    assert re.search(r"NVIDIA H200 float16 bfloat16 .*NVIDIA H100 80GB HBM3 float16 bfloat16 ", text)


def test_a_library_on_unpadded_operands_alone_is_marked(browser: httpx.Client) -> None:
    marked = get(browser, "/ui/leaderboard?device=NVIDIA+H200&dtype=bfloat16&size=16385").text
    assert re.search(r"% of cublas_tuned †\s?\.", marked) and "it may be several times as fast" in marked
    assert "it may be several times as fast" not in get(browser, "/ui/leaderboard?dtype=bfloat16&size=4096").text


def test_figures_of_a_report_are_quoted_not_vouched_for(browser: httpx.Client) -> None:
    page = get(browser, "/ui/published/p100_register_blocking").text
    assert "As the report states them." in page and "Trust" not in page and "clean" not in page
    assert "Trust" in get(browser, "/ui/published/h200_grade").text


def test_published_runs_are_in_front(browser: httpx.Client) -> None:
    first = get(browser, "/")
    assert {"/ui/leaderboard", "/ui/published"} <= set(first.links) and "hopper_bf16" in first.text
    titles = [one.title for one in PUBLISHED.values()]
    assert len(titles) == len(set(titles))
    for name in ("h200_ladder", "h200_ladder_again"):
        page = get(browser, f"/ui/published/{name}")
        assert "Fastest of this project's kernels: pipelined" in page.text and "not named" not in page.text


def test_one_s_own_run_is_held_against_a_published_one(api: Api, browser: httpx.Client) -> None:
    job = done(api, browser, shapes=[256, 512])
    link = next(one for one in get(browser, f"/ui/benchmarks/{job}").links if "before=published:" in one)
    assert link.endswith(f"before=published:h200_twenty_sizes&after={job}")
    page = get(browser, link)
    assert "The two runs have no case in common" in page.text
    assert re.search(r"256 float32 register_tiled [\d ]+ cpu_blas 10 [\d.e-]+ times as fast", page.text)
    assert_no_dead_links(browser, page)
    twice = get(browser, "/ui/compare?before=published:h200_ladder&after=published:h200_ladder_again")
    assert "same 14" in twice.text
    get(browser, "/ui/compare?before=published:nothing&after=published:h200_ladder", 404)


def test_an_empty_comparison_says_how_to_get_two_runs(browser: httpx.Client) -> None:
    page = get(browser, "/ui/compare")
    assert "You need two runs." in page.text and f"{len(PUBLISHED)} published runs" in page.text


def test_results_have_their_answer(api: Api, browser: httpx.Client) -> None:
    job = done(api, browser)
    (answer,) = browser.get(f"/v1/benchmarks/{job}/results").json()["answers"]
    assert (answer["kernel"], answer["is_library"], answer["condition"]) == ("cpu_blas", True, "clean")
    page = get(browser, f"/ui/benchmarks/{job}")
    assert "The library's fastest: cpu_blas , float32" in page.text and answer["next_step"] in page.text
