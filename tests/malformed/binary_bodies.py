"""Mutations of .npy files, safetensors files and multipart forms by their grammar."""

from __future__ import annotations

import json
import random
import re
import struct

from tests.malformed.json_bodies import mutated_json
from tests.malformed.values import BYTES, NUMBERS, mangled

NPY_MAGIC = b"\x93NUMPY"
DESCRS = (
    *("<f4", ">f4", "<f8", "<f2", "|i1", "<i4", ">i4", "|O", "|V0", "|S0", "<U0", "|b1", "<c16", "<f16", "<M8[s]"),
    *("<i8", "|u1", "f4", "float32", "", "<f-4", "<f99999999999", "|V1000000000", "[('a','<f4')]"),
)
SHAPES = (
    *("()", "(2,)", "(2, 2)", "(2, 2, 2)", "(0, 2)", "(-1, 2)", "(2, 2", "2", "(True, 2)", "(2.0, 2)", "('2', 2)"),
    *("(18446744073709551616, 2)", "(65536, 65536)", "(4294967296, 4294967296)", "(1,) * 100", "(2L, 2)", "[2, 2]"),
    "(" + "1," * 3000 + ")",
)
HEADERS = (
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), 'x': 1}",
    "{'descr': '<f4', 'fortran_order': False}",
    "{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': (2, 2)}",
    "{'descr': '<f4', 'fortran_order': 1, 'shape': (2, 2)}",
    "{[]: 1}",
    "__import__('os').system('true')",
    "(" * 500 + ")" * 500,
    "-" * 9000 + "1",
    "{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (2, 2)}",
    "{" * 100,
    "",
    "\x00",
)


def npy_file(header: str, elements: bytes, *, version: int = 1, told_length: int | None = None) -> bytes:
    text = header.encode("latin-1", "replace")
    length = len(text) if told_length is None else told_length
    count = struct.pack("<H", length & 0xFFFF) if version == 1 else struct.pack("<I", length & 0xFFFFFFFF)
    return NPY_MAGIC + bytes([version & 0xFF, 0]) + count + text + elements


def mutated_npy(body: bytes, rng: random.Random) -> bytes:
    """Another header, or other bytes, before elements that are too few or too many."""
    elements = body[-rng.randint(0, 64) :] if rng.random() < 0.5 else rng.randbytes(16)
    told = rng.choice((None, None, None, 0, 1, 65535, 2**31, 2**32 - 1))
    match rng.randrange(4):
        case 0:
            return mangled(body, rng)
        case 1:
            return npy_file(rng.choice(HEADERS), elements, version=rng.choice((1, 2, 3)), told_length=told)
        case _:
            order = rng.choice(("False", "True", "0", "None", "'C'"))
            header = f"{{'descr': '{rng.choice(DESCRS)}', 'fortran_order': {order}, 'shape': {rng.choice(SHAPES)}, }}\n"
            return npy_file(header, elements, version=rng.choice((1, 1, 1, 2, 3, 0, 9, 255)), told_length=told)


def mutated_safetensors(body: bytes, rng: random.Random) -> bytes:
    """Another header, or one of another length than told."""
    length = int.from_bytes(body[:8], "little")
    header, elements = body[8 : 8 + length], body[8 + length :]
    match rng.randrange(5):
        case 0:
            return mangled(body, rng)
        case 1:
            told = rng.choice((0, 1, length - 1, length + 1, 2**31, 2**63, 2**64 - 1))
            return struct.pack("<Q", told % 2**64) + header + elements
        case 2:
            header = _with_other_offsets(header, rng)
        case _:
            header = mutated_json(header, rng)
    cut = elements[: rng.randint(0, len(elements))] if rng.random() < 0.2 else elements
    return struct.pack("<Q", len(header)) + header + cut


def _with_other_offsets(header: bytes, rng: random.Random) -> bytes:
    tree = json.loads(header)
    for entry in tree.values():
        if "data_offsets" in entry and rng.random() < 0.7:
            entry["data_offsets"] = [rng.choice((*NUMBERS, 16, 32, 8)) for _ in range(rng.choice((2, 2, 2, 0, 1, 3)))]
    return json.dumps(tree).encode()


def mutated_multipart(body: bytes, rng: random.Random) -> bytes:
    """Parts changed, left out, doubled or renamed; boundaries and their headers spoilt."""
    boundary = body[: body.index(b"\r\n")]
    parts = [part for part in body.split(boundary) if part.strip(b"-\r\n")]
    chosen = rng.randrange(len(parts))
    match rng.randrange(8):
        case 0:
            return mangled(body, rng)
        case 1:
            del parts[chosen]
        case 2:
            parts.insert(chosen, parts[chosen])
        case 3:
            parts[chosen] = _with_another_head(parts[chosen], rng)
        case 4:
            return body[: rng.randint(0, len(body))]
        case 5:
            return rng.choice(BYTES) + body + rng.choice(BYTES)
        case _:
            head, _, content = parts[chosen].partition(b"\r\n\r\n")
            mutated = mutated_npy if content.startswith(NPY_MAGIC) else mutated_json
            parts[chosen] = head + b"\r\n\r\n" + mutated(content.removesuffix(b"\r\n"), rng) + b"\r\n"
    return boundary + boundary.join(parts) + boundary + b"--\r\n"


def _with_another_head(part: bytes, rng: random.Random) -> bytes:
    head, _, content = part.partition(b"\r\n\r\n")
    match rng.randrange(5):
        case 0:
            head = re.sub(rb'name="[^"]*"', lambda _: b'name="%s"' % rng.choice((*BYTES, b"c", b"x", b"options")), head)
        case 1:
            head += b"\r\nContent-Length: %d" % rng.choice((0, 1, 2**63))
        case 2:
            head += b"\r\nContent-Type: " + rng.choice(
                (b"text/html", b"application/json", b"\xff", b"a/b; c=" + b"d" * 9000)
            )
        case 3:
            head = head.replace(b"form-data", rng.choice((b"attachment", b"", b"form-data; filename*=utf-8''%ff")))
        case _:
            head = mangled(head, rng)
    return head + b"\r\n\r\n" + content
