"""Values that parsers have stumbled over: numbers, texts, sizes, lists, and bytes."""

from __future__ import annotations

import random
from typing import Any

NUMBERS: tuple[Any, ...] = (
    0,
    -1,
    1,
    2,
    127,
    2**31,
    2**32,
    2**53 + 1,
    2**63,
    2**64,
    -(2**63) - 1,
    10**30,
    0.5,
    -0.0,
    1e-400,
    1e39,
    1.7976931348623157e308,
)
TEXTS: tuple[str, ...] = (
    "",
    " ",
    "\x00",
    "a\x00b",
    "\ud800",
    "\U0010ffff",
    "ﷺ" * 20,
    "NaN",
    "Infinity",
    "-Infinity",
    "1.5",
    "1e400",
    "../../etc/passwd",
    "%00",
    "<script>alert(1)</script>",
    "'; DROP TABLE jobs; --",
    "${7*7}",
    "{{7*7}}",
    "auto",
    "cublas",
    "float32",
    "float8_e4m3",
    "fp64",
    "0" * 64,
    "f" * 65,
    "é" * 500,
    "x" * 5000,
    "true",
    "null",
    "-1",
    "99999999999999999999",
    "٣",
    "ſ",
)
LITERALS: tuple[str, ...] = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e400",
    "-1e400",
    "9" * 40,
    "9" * 5000,
    "0x10",
    "01",
    "+1",
    "1.",
    ".5",
    "1e",
    "nul",
    "True",
    "'a'",
    '"\\ud800"',
    '"\\ud83d"',
    '"\\u0000"',
    '"\\x"',
    '"' + "\x01" + '"',
    "[" * 260 + "]" * 260,
    "[" * 2000 + "]" * 2000,
    '{"a":' * 300 + "1" + "}" * 300,
    "[]",
    "{}",
    "[[]]",
    "[[[[1]]]]",
    "[" + "0," * 3000 + "0]",
)
BYTES: tuple[bytes, ...] = (
    b"",
    b"\x00",
    b"\xff",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\x80",
    b"\r\n",
    b"\n",
    b"\r\n\r\n",
    b"--",
    b"\x93NUMPY",
    b"%00",
    b"%zz",
    b"\xc0\xaf",
    b"A" * 4096,
    b"\x1f\x8b\x08\x00",
    b"PK\x03\x04",
    b"\x80\x04\x95",
)


def odd_value(rng: random.Random) -> Any:
    """A number, a text, true, null, a list or an object."""
    kind = rng.randrange(6)
    if kind == 0:
        return rng.choice(NUMBERS)
    if kind == 1:
        return rng.choice(TEXTS)
    if kind == 2:
        return rng.choice((True, False, None))
    if kind == 3:
        return [odd_value(rng) for _ in range(rng.randrange(4))]
    if kind == 4:
        return {rng.choice(TEXTS): odd_value(rng) for _ in range(rng.randrange(3))}
    return rng.randint(-(2**70), 2**70)


def mangled(data: bytes, rng: random.Random) -> bytes:
    """Some bytes flipped, cut out, doubled or put in."""
    mutable = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(mutable))
        match rng.randrange(5):
            case 0 if at < len(mutable):
                mutable[at] ^= 1 << rng.randrange(8)
            case 1:
                del mutable[at : at + rng.randint(1, 16)]
            case 2:
                mutable[at:at] = mutable[at : at + rng.randint(1, 32)]
            case 3:
                mutable[at:at] = rng.choice(BYTES)
            case _:
                del mutable[at:]
    return bytes(mutable)
