"""`Accept` → the media type of the reply (RFC 9110, section 12.5.1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from jobs.formats.bit_floats import held_as_bits
from jobs.formats.safetensors import in_safetensors
from kernels.model.numerics import DTypeName
from service.problems import NotAcceptable

JSON = "application/json"
NPY = "application/x-npy"
SAFETENSORS = "application/x-safetensors"
OCTETS = "application/octet-stream"
_WEIGHT = re.compile(r"[01](\.\d{0,3})?", re.ASCII)

KEPT_CHARACTERS = 256  # longest value whose choice is kept
PRODUCT_OFFERS = (JSON, NPY, SAFETENSORS, OCTETS)  # the first is the default
FILE_OFFERS = (NPY, SAFETENSORS, OCTETS, JSON)


@lru_cache
def offers_for(dtype: DTypeName, offers: tuple[str, ...]) -> tuple[str, ...]:
    """The media types that support the element type: npy has numpy's types, safetensors all except complex128."""
    missing = {NPY} if held_as_bits(dtype) else set() if in_safetensors(dtype) else {SAFETENSORS}
    return tuple(offer for offer in offers if offer not in missing)


def choose_type(accept: str | None, offers: Sequence[str]) -> str:
    """The offer that the caller prefers; the first among equals. Raises NotAcceptable, which lists the offers."""
    if not accept or accept == "*/*":
        return offers[0]
    return _chosen(accept, tuple(offers)) if len(accept) <= KEPT_CHARACTERS else _choose(accept, offers)


def _choose(accept: str, offers: Sequence[str]) -> str:
    ranges = [_parse_range(text) for text in accept.split(",") if text.strip()]
    best = max(offers, key=lambda offer: _quality(offer, ranges))  # `max` keeps the first of equals
    if not ranges or _quality(best, ranges) > 0:
        return best
    raise NotAcceptable(
        f"This path can answer with {', '.join(offers)}; none of them is in Accept.",
        field="Accept",
        members={"offers": list(offers)},
    )


_chosen = lru_cache(maxsize=256)(_choose)  # clients send the same few values


def _parse_range(text: str) -> tuple[str, float]:
    """A media range without its parameters, and its weight; a weight that cannot be read counts as 0."""
    media_range, *parameters = (piece.strip().lower() for piece in text.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            return media_range, _weight(value.strip())
    return media_range, 1.0


def _weight(text: str) -> float:
    return min(float(text), 1.0) if _WEIGHT.fullmatch(text) else 0.0


def _quality(offer: str, ranges: Sequence[tuple[str, float]]) -> float:
    """The weight of the most specific range that matches the offer; 0 if none does."""
    family = offer.split("/")[0] + "/*"
    for pattern in (offer, family, "*/*"):
        weights = [weight for media_range, weight in ranges if media_range == pattern]
        if weights:
            return max(weights)
    return 0.0
