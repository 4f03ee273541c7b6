"""Scripts that run for every product, as Redis functions. A script creates all its Lua functions each time it runs,
which takes longer than most of their work; a library creates them once. The library's name is derived from its
contents, so several versions can coexist. Only the API may load libraries, because a worker that could do so might
replace code that the API runs. A process that finds no function runs the script instead.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Mapping
from typing import Any, cast

import redis
import structlog

from jobs.redis.client import translated

LAST_LINE = "return main(ARGV)"  # of a script that is a function of its library as well
KEPT = 4  # most recently loaded libraries to keep: more than the versions that may run on one Redis
OFF_S = 60.0  # how long a process that found no function does not try again

log = structlog.get_logger(__name__)

Command = tuple[str | bytes | int, ...]


class Functions:
    """`parts`: code shared by all functions, including `begin`, which resets state for each run. `scripts`: flags and
    text of each script by name; the text ends with LAST_LINE.
    """

    def __init__(self, prefix: str, parts: str, scripts: Mapping[str, tuple[str, str]]) -> None:
        first = f"local prefix, ARGV, call = {_quoted(prefix)}, {{}}"
        self._first_line = f"\n{first}\n".encode()
        text = "\n".join((first, parts, *(_registered(name, *script) for name, script in scripts.items())))
        self.library = f"matmul_{hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:20]}"
        self._text = f"#!lua name={self.library}\n" + text.replace("@library@", self.library)
        self._book = f"{prefix}libraries"  # a list of those loaded, the last one first
        self._names = {name: f"{self.library}_{name}" for name in scripts}
        self._off_until = 0.0

    def name(self, script: str) -> str | None:
        """The name of the function for a script, if there is one and it may be called."""
        return self._names.get(script) if time.monotonic() >= self._off_until else None

    def loading(self) -> list[Command]:
        """The command that loads the library."""
        book = (("LREM", self._book, 0, self.library), ("LPUSH", self._book, self.library))
        return [*book, ("FUNCTION", "LOAD", "REPLACE", self._text)]

    def is_missing(self, reply: object) -> bool:
        """Whether a call was refused because there is no such function, or the user may not call or load any."""
        if not isinstance(reply, redis.ResponseError):
            return False
        text = str(reply)
        missing = "Function not found" in text or "'function|load' command" in text or self.is_forbidden(reply)
        return missing or ("unknown command" in text and "FCALL" in text.upper())

    def is_forbidden(self, reply: object) -> bool:
        """Whether this Redis user may not call functions, so that loading the library is useless."""
        return isinstance(reply, redis.ResponseError) and "'fcall' command" in str(reply)

    def disable(self) -> None:
        """Runs scripts instead of functions for a while."""
        self._off_until = time.monotonic() + OFF_S

    @translated()
    def load(self, client: redis.Redis) -> None:
        """Loads the library, at the start of an API process, and removes libraries that were not loaded for long.

        Raises StoreUnavailable, StoreFull."""
        try:
            execute: Any = client.execute_command
            for command in self.loading():
                execute(*command)
            # Processes that load at the same time may each add it to the list; a library not on the list is older.
            names = dict.fromkeys(cast(list[bytes], client.lrange(self._book, 0, -1)))
            for old in [*names, *self._unlisted(client, names)][KEPT:]:
                client.lrem(self._book, 0, old)  # type: ignore[arg-type]  # bytes do
                self._remove(client, old)
        except redis.ResponseError as refusal:
            if not self.is_missing(refusal):
                raise
            log.warning("Redis keeps no functions for this user, so products take longer", reason=str(refusal))
            self.disable()
        else:
            self._off_until = 0.0

    def _unlisted(self, client: redis.Redis, listed: Collection[bytes]) -> list[bytes]:
        """This service's libraries that are not on the list, such as those loaded before a FLUSHALL, which does not
        remove them. Empty if this user may not list libraries.
        """
        try:
            found: Any = client.function_list("matmul_*", withcode=True)
        except redis.exceptions.NoPermissionError:
            return []
        about = [dict(zip(each[::2], each[1::2], strict=True)) for each in found]
        ours = [each[b"library_name"] for each in about if self._first_line in each[b"library_code"]]
        return [name for name in ours if name not in listed]

    def _remove(self, client: redis.Redis, library: Any) -> None:
        try:
            client.function_delete(library)
        except redis.ResponseError as refusal:
            if "not found" not in str(refusal):
                raise


def _registered(name: str, flags: str, text: str) -> str:
    listed = ", ".join(_quoted(flag) for flag in flags.split(",") if flag)
    return f"""do
{text.strip().removesuffix(LAST_LINE)}
redis.register_function{{
  function_name = '@library@_{name}', flags = {{{listed}}},
  callback = function(_, arguments)
    begin(arguments)
    return main(arguments)
  end
}}
end"""


def _quoted(text: str) -> str:
    return '"' + "".join(f"\\{byte:03d}" if byte in b'"\\' or byte < 32 else chr(byte) for byte in text.encode()) + '"'
