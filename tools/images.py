"""Takes the pictures of README.md and docs/guide.md: `python -m tools.images`.

Starts the service with a CPU worker, gives it some products, and has Chromium photograph its pages; benchmarks on them
are those that ship with the package, as recorded on an H200.
"""

from __future__ import annotations

import io
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from PIL import Image
from playwright.sync_api import Browser, Page

from tools.browser import chromium
from tools.harness.api import http_client
from tools.stack import Stack

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT = 1100, 900
COLOURS = 256
MAX_BYTES = 100_000
WAIT_S = 120
SIDE = 512
WORK_S = 90


@dataclass(frozen=True, slots=True)
class Shot:
    """A page, from the top of one of its parts, at most this many pixels high."""

    path: str
    top: str = "body"
    height: int = HEIGHT


def shots(product: str) -> dict[str, Shot]:
    """Pictures by name; `product` is the id of a job."""
    return {
        "product": Shot(f"/ui/jobs/{product}"),
        "results": Shot("/ui/published/h200_grade", "#charts", 800),
        "roofline": Shot("/ui/published/h200_ladder?plot=roofline&model=tile", "#charts", 690),
        "compare": Shot(
            "/ui/compare?before=published:h200_ladder&after=published:h200_ladder_again", "#verdicts", height=980
        ),
        "kernel": Shot("/ui/kernels/warp_tiled", "section[aria-labelledby=access]", 790),
        "overview": Shot("/?over=5m", height=760),  # last: by then there are trends to see
    }


def finished(http: httpx.Client, path: str, body: dict[str, Any]) -> str:
    """Posts a job; its id once it has come to a good end."""
    location = http.post(path, json=body, headers={"prefer": "respond-async"}).raise_for_status().headers["location"]
    record = http.get(location, headers={"prefer": f"wait={WAIT_S}"}).raise_for_status().json()
    if record["state"] != "succeeded":
        raise RuntimeError(f"{location} has {record['state']}: {record['error']}")
    return str(record["id"])


def work(http: httpx.Client) -> str:
    """Products for as long as trends take to show something; the last one's job."""
    ends_at = time.monotonic() + WORK_S
    while (left_s := ends_at - time.monotonic()) > 0:
        n = 64 * (1 + int(left_s) % 16)
        operands = {name: {"random": {"shape": [n, n], "seed": n}} for name in ("a", "b")}
        finished(http, "/v1/matmul", operands)
    a, b = ({"random": {"shape": [SIDE, SIDE], "seed": seed}} for seed in (1, 2))
    return finished(http, "/v1/matmul", {"a": a, "b": b})


def take(page: Page, url: str, shot: Shot, file: Path) -> None:
    page.goto(url + shot.path)
    page.wait_for_load_state("networkidle")
    box = page.locator(shot.top).first.bounding_box()
    if box is None:
        raise RuntimeError(f"{shot.path} has no {shot.top}")
    above = max(0.0, box["y"] - 8)
    height = min(float(shot.height), float(page.evaluate("document.documentElement.scrollHeight")) - above)
    shown = page.screenshot(full_page=True, clip={"x": 0, "y": above, "width": WIDTH, "height": height})
    save(shown, file)
    if file.stat().st_size > MAX_BYTES:
        raise RuntimeError(f"{file.name} has {file.stat().st_size} bytes: show less of the page")


def save(shown: bytes, file: Path) -> None:
    """Saves with a palette: pages have few colours, so files take a third of the bytes."""
    with Image.open(io.BytesIO(shown)) as whole:
        few = whole.convert("RGB").quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    few.save(file, optimize=True)


def photograph(browser: Browser, url: str, product: str) -> None:
    wanted = shots(product)
    with browser.new_context(locale="en-GB", viewport={"width": WIDTH, "height": HEIGHT}) as context:
        context.add_init_script("sessionStorage.setItem('paused', 'yes')")
        page = context.new_page()
        for name, shot in wanted.items():
            take(page, url, shot, IMAGES / f"{name}.png")
            print(f"docs/images/{name}.png written")
    for file in IMAGES.glob("*.png"):
        if file.stem not in wanted:
            file.unlink()


def main() -> None:
    with (
        TemporaryDirectory() as directory,
        Stack(Path(directory), settings={"cpu_threads": "1"}) as stack,
        http_client(stack.url) as http,
        chromium() as browser,
    ):
        photograph(browser, stack.url, work(http))


if __name__ == "__main__":
    main()
