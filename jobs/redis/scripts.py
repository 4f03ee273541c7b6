"""Lua scripts that run in Redis. Each is one atomic step: of the ledger (`jobs/ledger/lua`), of the matrix stores'
index (`jobs/matrices/lua`), of the register of workers (`jobs/fleet/lua`), or of a lock (`lua` here).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import redis

from jobs.redis.client import translated
from jobs.redis.connections import beside
from jobs.redis.functions import LAST_LINE, Functions

LOCK_SCRIPTS = Path(__file__).parent / "lua"
_WORD = re.compile(r"\w+")
_COMMON = "common*.lua"  # code that every script of a folder may use
# A name for a number, such as a bound. Lua allows 200 local names at a time, and shared code has nearly as many: so
# numbers are put in the place of their names.
_NUMBER = re.compile(r"^local ([A-Z_]+) = (\d[\de^* ]*?)(?: +--.*)?$\n?", re.MULTILINE)
_DECLARED = re.compile(r"^local ([\w, ]+) =", re.MULTILINE)
SERVER_CLOCK = "redis.call('TIME')"  # the one clock that all processes share

# Prefix of every script. Times are in microseconds. Lua formats such numbers as 1.79e+15; `int` writes all digits,
# which takes as long as some commands. Redis itself writes number arguments of commands in full.
_PREFIX = "local prefix, call = ARGV[1], redis.call"
_PRELUDE = """
local function int(number)
  return string.format('%d', number)
end

local function now()
  local time = {clock}
  return time[1] * 1000000 + time[2]
end

local function now_in_full()
  local time = {clock}
  local seconds, micros = time[1], time[2]
  return #micros == 6 and seconds .. micros or int(seconds * 1000000 + micros)
end
"""


@lru_cache
def _sources(clock: str, folder: Path, after: Path | None) -> dict[str, str]:
    """Script name → source: its `#!lua` line, the shared code that it uses, and its own code."""
    pieces = [_PREFIX, *_shared(folder, after)]
    sources = {}
    for name, (shebang, own) in _own(folder).items():
        text = "\n".join([shebang, *_with_numbers("\n".join(_used(pieces, own)), own)])
        sources[name] = text.replace("{clock}", clock)
    return sources


@lru_cache
def _functions(clock: str, folder: Path, after: Path | None, prefix: str) -> Functions | None:
    """The functions for scripts that end with a call of `main`; None if there are none."""
    scripts = {
        name: (shebang.partition("flags=")[2], own)
        for name, (shebang, own) in sorted(_own(folder).items())
        if own.rstrip().endswith(LAST_LINE)
    }
    if not scripts:
        return None
    owns = [own for _, own in scripts.values()]
    used, *owns = _with_numbers("\n".join(_used(_shared(folder, after), "\n".join(["begin", *owns]))), *owns)
    flags = (flags for flags, _ in scripts.values())
    return Functions(
        prefix, used.replace("{clock}", clock), dict(zip(scripts, zip(flags, owns, strict=True), strict=True))
    )


def _with_numbers(shared: str, *owns: str) -> list[str]:
    """These texts, where the first one gives numbers their names. What another text declares itself is its own."""
    numbers = {match[1]: f"({match[2]})" for match in _NUMBER.finditer(shared)}
    return [_replaced(_NUMBER.sub("", shared), numbers), *(_replaced(own, numbers) for own in owns)]


def _replaced(text: str, numbers: Mapping[str, str]) -> str:
    its_own = {name for declared in _DECLARED.findall(text) for name in _words(declared)}
    return _WORD.sub(lambda word: word[0] if word[0] in its_own else numbers.get(word[0], word[0]), text)


def _own(folder: Path) -> dict[str, tuple[str, str]]:
    """Script name → its first line, and the rest of its own code."""
    paths = (path for path in folder.glob("*.lua") if not path.match(_COMMON))
    texts = {path.stem: path.read_text().partition("\n") for path in paths}
    return {name: (shebang, own) for name, (shebang, _, own) in texts.items()}


def _shared(folder: Path, after: Path | None) -> list[str]:
    commons = [*(sorted(after.glob(_COMMON)) if after else []), *sorted(folder.glob(_COMMON))]
    return [piece for text in (_PRELUDE, *(path.read_text() for path in commons)) for piece in _pieces(text)]


def _pieces(text: str) -> list[str]:
    """The top-level statements, each with its indented lines, without comments."""
    lines = [line for line in text.splitlines() if line and not line.startswith("--")]
    starts = [i for i, line in enumerate(lines) if line[0].isalpha() and line != "end"]
    return ["\n".join(lines[i:j]) for i, j in pairwise([*starts, len(lines)])]


@cache
def _names(piece: str) -> frozenset[str]:
    """The names that a statement declares or defines."""
    head = piece.removeprefix("local function ").removeprefix("local ")
    return _words(re.split(r"[(=]|--", head, maxsplit=1)[0])


@cache
def _words(piece: str) -> frozenset[str]:
    return frozenset(_WORD.findall(piece))


def _used(pieces: Sequence[str], own: str) -> list[str]:
    """The statements that the script needs, in order. Others are left out, because a script creates all its functions
    each time it runs.
    """
    wanted = set(_words(own))
    used: list[str] = []
    while more := [piece for piece in pieces if piece not in used and not wanted.isdisjoint(_names(piece))]:
        used += more
        wanted.update(*map(_words, more))
    return [piece for piece in pieces if piece in used]


class RedisScripts:
    """Runs the scripts of a folder by name. `clock` is the Lua expression for {seconds, microseconds}; tests give
    their own. `after`: a folder whose `common*.lua` these scripts use too.

    Raises StoreUnavailable, StoreFull.
    """

    def __init__(
        self, client: redis.Redis, prefix: str, folder: Path, *, clock: str = SERVER_CLOCK, after: Path | None = None
    ) -> None:
        self._client, self._connections = client, beside(client)
        self._prefix = prefix
        self._sources = _sources(clock, folder, after)
        self.functions = copy(_functions(clock, folder, after, prefix))  # a copy: each is disabled separately
        self._digests = {
            name: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest() for name, text in self._sources.items()
        }

    def command(self, name: str, *args: str | bytes | int, whole: bool = False) -> tuple[str | bytes | int, ...]:
        """The command that runs the script, for callers that send it themselves: a function call if there is one,
        otherwise by digest; with `whole`, the full text.
        """
        function = self.functions.name(name) if self.functions else None
        if whole:
            return ("EVAL", self._sources[name], 0, self._prefix, *args)
        if function is not None:
            return ("FCALL", function, 0, self._prefix, *args)
        return ("EVALSHA", self._digests[name], 0, self._prefix, *args)

    def load_functions(self) -> None:
        """Loads the Redis functions. For the API, at its start."""
        if self.functions is not None:
            self.functions.load(self._client)

    def is_unknown(self, reply: object) -> bool:
        """Whether Redis did not know the function or digest that `command` sent, so that the full text must be sent."""
        if isinstance(reply, redis.exceptions.NoScriptError):
            return True
        return self.functions is not None and self.functions.is_missing(reply)

    @translated()
    def run(self, name: str, *args: str | bytes | int) -> Any:
        """Runs the script by its function or digest, or by its full text if Redis does not know it, as after a
        restart.
        """
        functions = self.functions
        if functions and functions.name(name):
            try:
                return self._connections.ask(*self.command(name, *args))
            except redis.ResponseError as refusal:
                if not self.is_unknown(refusal):
                    raise
                functions.disable()
        try:
            return self._connections.ask(*self.command(name, *args))
        except redis.exceptions.NoScriptError:
            return self._connections.ask(*self.command(name, *args, whole=True))
