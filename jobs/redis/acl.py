"""Redis users for the parts of this service, with the commands and keys that each needs and no others.

python -m jobs.redis.acl     prints lines for an ACL file, and on stderr the passwords that go into MATMUL_REDIS_URL

The lines include one for the administrator: with an ACL file Redis ignores `requirepass`, and a user `default` without
a line would need no password. Nobody else may empty the server, configure it, list its keys or end another's script,
and only the API may load functions: a worker's would run with the rights of the API. The sweeper is part of the API and
has its user.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import secrets
import sys
from collections.abc import Sequence
from functools import partial
from typing import Literal, get_args

from jobs.errors import InvalidSettings
from jobs.starting.wrong_settings import checked_settings

Role = Literal["api", "worker"]
ROLES: tuple[Role, ...] = get_args(Role)
PASSWORD_BYTES = 24

_CONNECTION = ("auth", "hello", "ping", "select", "reset", "quit", "client|setinfo", "client|setname", "client|id")
_SCRIPTS = ("evalsha", "eval", "fcall", "script|load", "script|exists", "time")
_KEYS = ("del", "unlink", "exists", "expire", "pexpire", "pexpireat", "persist", "pttl", "ttl", "copy", "rename")
_STRINGS = ("get", "set", "setnx", "getrange", "strlen", "incr", "incrby", "mget")
_HASHES = ("hget", "hset", "hsetnx", "hmget", "hdel", "hexists", "hgetall", "hincrby", "hkeys", "hlen", "hstrlen")
_LISTS = ("llen", "lpush", "rpush", "lrem", "lrange", "lindex", "rpop")
_SETS = ("sadd", "srem", "smembers", "scard", "sismember")
_SORTED = (
    *("zadd", "zrem", "zcard", "zcount", "zscore", "zmscore", "zrank", "zrange", "zrevrange", "zpopmin", "zincrby"),
    *("zrangebyscore", "zrevrangebyscore", "zremrangebyrank", "zremrangebyscore", "zlexcount", "zrangebylex"),
)
_STREAMS = ("xadd", "xrange", "xrevrange", "xlen", "xtrim")
_TELLING = ("publish", "wait", "info", "multi", "exec", "discard", "watch", "unwatch")
# What both roles need: the ledger and the stores' index are scripts that either may run.
SHARED = (*_CONNECTION, *_SCRIPTS, *_KEYS, *_STRINGS, *_HASHES, *_LISTS, *_SETS, *_SORTED, *_STREAMS, *_TELLING)
OWN: dict[Role, tuple[str, ...]] = {
    # The API receives notifications, checks Redis' sync policy, loads the functions that both call, and removes old
    # ones.
    "api": ("subscribe", "unsubscribe", "config|get", "function|load", "function|list", "function|delete"),
    "worker": (
        "blmove",
        "brpop",
        "subscribe",
        "unsubscribe",
        "psubscribe",
        "punsubscribe",
    ),  # as Celery waits for messages
}


def user_name(role: Role) -> str:
    return f"matmul-{role}"


def key_patterns(role: Role, prefix: str) -> tuple[str, ...]:
    """Patterns for all keys with the prefix. A worker gets no keys that begin with `se`, so that it can neither read
    nor create sign-ins.
    """
    escaped = re.sub(r"([*?\[\]\\^])", r"\\\1", prefix)
    return (f"{escaped}*",) if role == "api" else (f"{escaped}[^s]*", f"{escaped}s[^e]*")


def password_rule(password: str) -> str:
    return f"#{hashlib.sha256(password.encode()).hexdigest()}"


def user_rules(role: Role, prefix: str, password: str) -> str:
    """The rules that follow `user NAME` in an ACL file or a configuration."""
    keys = " ".join(f"~{pattern}" for pattern in key_patterns(role, prefix))
    channels = f"&{key_patterns('api', prefix)[0]}"
    commands = " ".join(f"+{command}" for command in (*SHARED, *OWN[role]))
    return f"{user_name(role)} on {password_rule(password)} resetkeys resetchannels {keys} {channels} -@all {commands}"


def administrator_rules(password: str) -> str:
    """The same for Redis' own user, who may do everything."""
    return f"default on {password_rule(password)} ~* &* +@all"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m jobs.redis.acl", description="Lines for an ACL file of Redis.")
    parser.add_argument("--prefix", help="as MATMUL_KEY_PREFIX, which it is by default")
    chosen = parser.parse_args(arguments)
    try:
        prefix = chosen.prefix or checked_settings().key_prefix
    except InvalidSettings as error:
        print(error, file=sys.stderr)
        return 1
    rules = {role: partial(user_rules, role, prefix) for role in ROLES} | {"administrator": administrator_rules}
    for whose, rules_of in rules.items():
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        print(f"user {(line := rules_of(password))}")
        print(f"{whose}: redis://{line.partition(' ')[0]}:{password}@<host>:6379/0", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
