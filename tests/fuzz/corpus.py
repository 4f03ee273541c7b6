"""Inputs that reach code of a target which its seeds do not: a line each in base64, replayed by `make test`. Fuzzing
begins with them."""

from __future__ import annotations

import base64
import hashlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from tests.fuzz.target import Target, takes

FOLDER = Path(__file__).parent / "corpus"
ROOT = Path(__file__).resolve().parents[2]
TRACED = tuple(str(ROOT / package) for package in ("service", "jobs", "analysis"))
MAX_TARGET_BYTES = 6000  # of inputs that are kept
Steps = set[tuple[str, int, int]]  # from line to line of a file


def kept(name: str) -> Iterator[bytes]:
    """The inputs of the target called so."""
    path = FOLDER / f"{name}.b64"
    return map(base64.b64decode, path.read_text().split()) if path.exists() else iter(())


def keep(target: Target, inputs: Iterable[bytes]) -> int:
    """Adds what is new of these, and leaves out what became needless; how many there are then."""
    seen: Steps = set()
    for seed in target.seeds():
        seen |= _steps(target, seed)
    chosen: list[bytes] = []
    for data in sorted({*inputs, *kept(target.name)}, key=lambda each: (len(each), each)):
        steps = _steps(target, data)
        if not steps <= seen and sum(map(len, chosen)) + len(data) <= MAX_TARGET_BYTES:
            seen |= steps
            chosen.append(data)
    FOLDER.mkdir(exist_ok=True)
    lines = (base64.b64encode(data).decode() for data in chosen)
    (FOLDER / f"{target.name}.b64").write_text("".join(f"{line}\n" for line in lines))
    return len(chosen)


def _steps(target: Target, data: bytes) -> Steps:
    """The steps of our own code that the input leads to."""
    steps: Steps = set()
    last: dict[str, int] = {}

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(TRACED):
            return None
        steps.add((file, last.get(file, 0), frame.f_lineno))
        last[file] = frame.f_lineno
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with suppress(Exception):
            takes(target, data)
    finally:
        sys.settrace(before)
    return steps


def unpack(target: Target, folder: Path) -> None:
    """Seeds and kept inputs as files, as libFuzzer wants them."""
    folder.mkdir(parents=True, exist_ok=True)
    for data in (*target.seeds(), *kept(target.name)):
        (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


def dictionary(words: Iterable[bytes]) -> str:
    """Words that mutations may put in, in libFuzzer's form."""
    return "".join('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in words)
