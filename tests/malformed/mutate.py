"""One to three mutations of a right request, chosen by what it has."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from tests.malformed.binary_bodies import mutated_multipart, mutated_npy, mutated_safetensors
from tests.malformed.heads import (
    with_another_framing,
    with_another_header,
    with_another_method,
    with_another_target,
    with_headers_spoilt,
)
from tests.malformed.json_bodies import mutated_json
from tests.malformed.requests import Form, Request
from tests.malformed.values import TEXTS, mangled


@dataclass(frozen=True, slots=True)
class Sent:
    """`is_whole`: by its own words it has one end, so it must be answered, and another may follow on its connection."""

    wire: bytes
    request: Request
    is_whole: bool


def mutated_urlencoded(body: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.3:
        return mangled(body, rng)
    fields = parse_qsl(body.decode()) or [("key", "")]
    at = rng.randrange(len(fields))
    name, value = fields[at]
    text = rng.choice(TEXTS).encode("utf-8", "replace").decode()
    fields[at] = rng.choice(((name, text), (text, value), (name, value * 400)))
    return urlencode(fields + fields[: rng.choice((0, 0, 1, 500))]).encode()


BODIES: dict[Form, Callable[[bytes, random.Random], bytes]] = {
    "json": mutated_json,
    "npy": mutated_npy,
    "safetensors": mutated_safetensors,
    "multipart": mutated_multipart,
    "urlencoded": mutated_urlencoded,
    "octets": mangled,
}


def _with_another_body(request: Request, rng: random.Random) -> None:
    request.body = BODIES[request.form](request.body, rng)


HEADS: tuple[tuple[Callable[[Request, random.Random], None], int], ...] = (
    (with_another_header, 6),
    (with_another_target, 4),
    (with_another_method, 1),
    (with_another_framing, 1),
    (with_headers_spoilt, 1),
)
ENDS_UNTOLD = frozenset({with_headers_spoilt.__name__, "bytes"})


def mutated(seeds: Sequence[Request], rng: random.Random) -> Sent:
    """Of any of them."""
    request = rng.choice(seeds).copy()
    for _ in range(rng.choice((1, 1, 2, 3))):
        if request.form in BODIES and rng.random() < 0.6:
            change: Callable[[Request, random.Random], None] = _with_another_body
        else:
            change = rng.choices([each for each, _ in HEADS], [weight for _, weight in HEADS])[0]
        request.mutations.append(change.__name__)
        try:
            change(request, rng)
        except (
            ValueError,
            LookupError,
            AttributeError,
            TypeError,
            RecursionError,
        ):  # an earlier mutation left nothing to change so
            request.body = mangled(request.body, rng)
    wire = request.wire(rng)
    if rng.random() < 0.02:
        request.mutations.append("bytes")
        wire = mangled(wire, rng)
    is_whole = not ENDS_UNTOLD.intersection(request.mutations) and request.framing != "as told"
    return Sent(wire, request, is_whole and not set(b"\r\n ").intersection(request.target))
