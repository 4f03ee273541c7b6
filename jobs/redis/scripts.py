"""Lua scripts that run in Redis. Each is one atomic step: of the ledger (`jobs/ledger/lua`), of the matrix stores'
index (`jobs/matrices/lua`), of the register of workers (`jobs/fleet/lua`), or of a lock (`lua` here).
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

import redis

from jobs.redis.client import translated

LOCK_SCRIPTS = Path(__file__).parent / "lua"
COMMON = "common*.lua"  # put in front of every script of the folder, in the order of their names
SERVER_CLOCK = "redis.call('TIME')"  # the one clock that all processes share

# In front of every script. Lua would write 1.79e+15; Redis must see every digit. Times are microseconds.
_PRELUDE = """
local prefix = ARGV[1]

local function int(number)
  return string.format('%.0f', number)
end

local function now()
  local time = {clock}
  return time[1] * 1000000 + time[2]
end
"""


@lru_cache
def _sources(clock: str, folder: Path) -> dict[str, str]:
    """Script name → source: its `#!lua` line, what all have, what its folder has, its own part."""
    common = _PRELUDE.replace("{clock}", clock) + "\n".join(path.read_text() for path in sorted(folder.glob(COMMON)))
    sources = {}
    for path in folder.glob("*.lua"):
        if not path.match(COMMON):
            shebang, own = path.read_text().split("\n", 1)
            sources[path.stem] = f"{shebang}\n{common}\n{own}"
    return sources


class RedisScripts:
    """Runs the scripts of a folder by name. `clock` is the Lua expression for {seconds, microseconds}; tests give
    their own.

    Raises StoreUnavailable, StoreFull.
    """

    def __init__(self, client: redis.Redis, prefix: str, folder: Path, *, clock: str = SERVER_CLOCK) -> None:
        self._client = client
        self._prefix = prefix
        self._sources = _sources(clock, folder)
        self._digests = {name: hashlib.sha1(text.encode()).hexdigest() for name, text in self._sources.items()}

    @translated()
    def run(self, name: str, *args: str | bytes | int) -> Any:
        """Sends the script's digest; the script itself where Redis does not know it, as after a restart."""
        try:
            return self._client.evalsha(self._digests[name], 0, self._prefix, *args)
        except redis.exceptions.NoScriptError:
            return self._client.eval(self._sources[name], 0, self._prefix, *args)
