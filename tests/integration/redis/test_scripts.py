"""Redis compiles each script, with what it uses of shared code."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.fleet import registry
from jobs.ledger import redis as ledger
from jobs.matrices import index
from jobs.redis.connections import client_of
from jobs.redis.embedded import EmbeddedServer
from jobs.redis.scripts import LOCK_SCRIPTS, RedisScripts

FOLDERS = {
    "ledger": (ledger.LUA_DIR, index.LUA_DIR),
    "matrices": (index.LUA_DIR, None),
    "fleet": (registry.LUA_DIR, None),
    "locks": (LOCK_SCRIPTS, None),
}


@pytest.mark.parametrize(("folder", "after"), FOLDERS.values(), ids=FOLDERS)
def test_redis_compiles_every_script(valkey: EmbeddedServer, key_prefix: str, folder: Path, after: Path | None) -> None:
    names = sorted(path.stem for path in folder.glob("*.lua") if not path.match("common*"))
    assert names
    with client_of(valkey.url) as client:
        scripts = RedisScripts(client, key_prefix, folder, after=after)
        for name in names:
            assert client.script_load(scripts.command(name, whole=True)[1])
