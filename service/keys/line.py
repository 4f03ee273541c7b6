"""A key's line: `<key id>:<hash>:<name>`, then any of `:role=…`, `:expires=…` and the key's own limits.

    3f0c…:9b2e…:alice:role=reader:expires=20270131T000000Z
    77aa…:c01d…:batch:jobs=500:flops_per_minute=1e15

A line without options is a submitter's key that does not expire and has the limits of the settings.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from jobs.errors import InvalidSettings
from jobs.models import ANONYMOUS
from service.keys.role import ROLES, Role

PREFIX = "mm"
SECRET_BYTES = 32
# Limits of a single key that override those of the settings.
LIMITS: Mapping[str, str] = {
    "jobs": "jobs in flight: queued and running",
    "queued_jobs": "jobs that wait",
    "job_bytes": "bytes of operands and products of jobs in flight",
    "flops_per_minute": "operations asked for in a minute",
}
_OPTION = re.compile(r":([a-z_]+)=([^:=]*)$")
_ID = re.compile("[A-Za-z0-9-]{1,64}")
_DIGEST = re.compile("[0-9a-f]{64}")
_NO_LIMITS: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class NewKey:
    """A new key as its holder gets it, and the line that the server keeps."""

    key: str
    line: str


@dataclass(frozen=True, slots=True)
class KnownKey:
    """The server's data about a key. `limits`: by the names in LIMITS."""

    id: str
    digest: str
    name: str
    role: Role = Role.SUBMITTER
    expires_at: datetime | None = None
    limits: Mapping[str, float] = field(default_factory=dict, hash=False)

    @property
    def line(self) -> str:
        options = [f"role={self.role.word}"] if self.role is not Role.SUBMITTER else []
        options += [f"expires={written_instant(self.expires_at)}"] if self.expires_at else []
        options += [f"{name}={_written(value)}" for name, value in self.limits.items()]
        return ":".join((self.id, self.digest, self.name, *options))

    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= datetime.now(UTC)


def _written(number: float) -> str:
    """The shortest text that parses to the same number."""
    return repr(number).removesuffix(".0")


def digest_of(key: str, pepper: bytes) -> str:
    return hmac.new(pepper, key.encode(), hashlib.sha256).hexdigest()


def new_secret(key_id: str, pepper: bytes) -> tuple[str, str]:
    """A new key of 256 random bits with that id, and its hash."""
    key = f"{PREFIX}_{key_id}_{secrets.token_urlsafe(SECRET_BYTES)}"
    return key, digest_of(key, pepper)


def make_key(
    name: str,
    pepper: bytes,
    *,
    role: Role = Role.SUBMITTER,
    expires_at: datetime | None = None,
    limits: Mapping[str, float] = _NO_LIMITS,
) -> NewKey:
    """A new key. Characters of `name` that the line may not contain are replaced."""
    key_id = secrets.token_hex(6)
    key, digest = new_secret(key_id, pepper)
    plain = "_".join(re.split(r"[\s:=]+", name.strip()))
    return NewKey(key, KnownKey(key_id, digest, plain, role, expires_at, limits).line)


def lines_in(text: bytes, path: Path) -> list[str]:
    """The lines of the key file `path`. Raises InvalidSettings."""
    try:
        return text.decode().splitlines()
    except UnicodeDecodeError:
        raise InvalidSettings(f"{path} is no text in UTF-8.") from None


def parse_lines(lines: Iterable[str]) -> dict[str, KnownKey]:
    """Keys by id; blank lines and those that begin with # are skipped. Raises InvalidSettings."""
    known: dict[str, KnownKey] = {}
    for number, line in enumerate(lines, 1):
        if not (text := line.strip()) or text.startswith("#"):
            continue
        try:
            key = parse_line(text)
            if known.setdefault(key.id, key) != key:
                raise ValueError(f"the id {key.id} is there twice; a key has one line.")
        except ValueError as error:
            raise InvalidSettings(f"API key line {number}: {error}") from None
    return known


def parse_line(text: str) -> KnownKey:
    """Raises ValueError, with a sentence."""
    options: dict[str, str] = {}
    while found := _OPTION.search(text):
        text = text[: found.start()]
        if found[1] in options:
            raise ValueError(f"{found[1]} is there twice.")
        options = {found[1]: found[2], **options}
    key_id, _, rest = text.partition(":")
    digest, _, name = rest.partition(":")
    if key_id == ANONYMOUS or not _ID.fullmatch(key_id) or not _DIGEST.fullmatch(digest):
        raise ValueError("it is not of the form <key id>:<hash>:<name>.")
    role, expires = options.pop("role", Role.SUBMITTER.word), options.pop("expires", None)
    if role not in ROLES:
        raise ValueError(f"there is no role {role!r}; a role is one of {', '.join(ROLES)}.")
    return KnownKey(
        key_id, digest, name, Role.of(role), None if expires is None else read_instant(expires), read_limits(options)
    )


def read_instant(text: str) -> datetime:
    """Parses an ISO 8601 date or time with a resolution of a second, in UTC if it names no zone. Raises ValueError,
    with a sentence.
    """
    try:
        instant = datetime.fromisoformat(text).replace(microsecond=0)
        return instant.astimezone(UTC) if instant.tzinfo else instant.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # the latter if the time zone shifts it out of the calendar
        raise ValueError(f"{text!r} is no time; write 2027-01-31 or 20270131T120000Z.") from None


def written_instant(instant: datetime) -> str:
    """The text of an instant in a line; `read_instant` parses it."""
    return f"{instant.year:04}{instant:%m%dT%H%M%SZ}"


def read_limits(given: Mapping[str, str]) -> Mapping[str, float]:
    """Raises ValueError, with a sentence."""
    limits = {}
    for name, text in given.items():
        if name not in LIMITS:
            raise ValueError(f"there is no {name!r}; beside role and expires a line takes {', '.join(LIMITS)}.")
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 1 <= value < math.inf:
            raise ValueError(f"{name} is {text!r}, but a limit is a number of at least 1.")
        limits[name] = value
    return MappingProxyType(limits)
