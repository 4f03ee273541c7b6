"""API keys: `mm_<key id>_<secret>`. The server keeps a line for each, with the HMAC-SHA256 of the key, and no key."""

from __future__ import annotations

from service.keys.line import SECRET_BYTES, KnownKey, NewKey, digest_of, make_key, parse_lines
from service.keys.ring import KeyRing, read_pepper
from service.keys.role import Role

__all__ = [
    "SECRET_BYTES",
    "KeyRing",
    "KnownKey",
    "NewKey",
    "Role",
    "digest_of",
    "make_key",
    "parse_lines",
    "read_pepper",
]
