"""`python -m service.keys`: creates, lists, rotates and revokes API keys."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from jobs.errors import InvalidSettings
from jobs.settings import Settings
from jobs.starting.wrong_settings import checked_settings
from service.keys.file import KeyFile
from service.keys.line import LIMITS, KnownKey, make_key, new_secret, read_instant, read_limits
from service.keys.ring import read_pepper
from service.keys.role import ROLES, Role

EXAMPLES = """\
examples:
  python -m service.keys new --name alice                       a submitter's key, and the line to add to the file
  python -m service.keys new --name grafana --role reader --expires 90d --add
  python -m service.keys new --name batch --limit jobs=500 --limit flops_per_minute=1e15 --add
  python -m service.keys list
  python -m service.keys rotate 3f0c5a7d9e11                    a new secret; the old one ends, jobs stay its own
  python -m service.keys revoke 3f0c5a7d9e11

A running server reads a changed file within a second.
"""


def read_expiry(text: str) -> datetime | None:
    """`never`, a number of days such as `90d`, or a time. Raises ValueError, with a sentence."""
    if text == "never":
        return None
    if text.endswith("d") and text[:-1].isdecimal():
        return datetime.now(UTC).replace(microsecond=0) + timedelta(days=int(text[:-1]))
    return read_instant(text)


def summary_of(known: KnownKey) -> str:
    """One line that describes a key, without its hash."""
    until = "never" if known.expires_at is None else f"{known.expires_at:%Y-%m-%d %H:%M} UTC"
    state = " (expired)" if known.is_expired() else ""
    limits = "".join(f"  {name}={value:.15g}" for name, value in known.limits.items())
    return f"{known.id}  {known.name}  {known.role.word}  expires {until}{state}{limits}"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m service.keys",
        description="API keys. The server keeps their hashes in MATMUL_API_KEYS_FILE.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    new = commands.add_parser("new", help="make a key; prints it once, and the line the server keeps")
    new.add_argument("--name", required=True, help="whose key it is; shown in the key file and in lists of keys only")
    new.add_argument("--role", choices=ROLES, default=Role.SUBMITTER.word, help="what it may do; submitter by default")
    new.add_argument("--expires", default="never", metavar="WHEN", help="90d, 2027-01-31 or never, the default")
    new.add_argument(
        "--limit", action="append", default=[], metavar="NAME=NUMBER", help=f"its own limit: {', '.join(LIMITS)}"
    )
    new.add_argument("--add", action="store_true", help="add the line to MATMUL_API_KEYS_FILE")
    commands.add_parser("list", help="show the keys of the file, without their hashes")
    for name, words in (
        ("show", "show one key"),
        ("revoke", "end a key: its line is taken out; its jobs and matrices expire as usual"),
        ("rotate", "give a key a new secret at once; its id, its role and what it owns stay"),
    ):
        one = commands.add_parser(name, help=words)
        one.add_argument("id", help="the key's id: what stands between the underscores of mm_<id>_<secret>")
    return parser.parse_args(arguments)


def new_key(settings: Settings, chosen: argparse.Namespace) -> None:
    limits: Mapping[str, float] = read_limits(dict(each.partition("=")[::2] for each in chosen.limit))
    made = make_key(
        chosen.name,
        read_pepper(settings),
        role=Role.of(chosen.role),
        expires_at=read_expiry(chosen.expires),
        limits=limits,
    )
    if chosen.add:
        KeyFile(settings).add(made.line)
    tell_key(made.key)
    print(f"line ({'added to' if chosen.add else 'add it to'} MATMUL_API_KEYS_FILE): {made.line}")


def tell_key(key: str) -> None:
    print(f"key (give it to its holder; it is not shown again): {key}")


def rotate(settings: Settings, key_id: str) -> None:
    file = KeyFile(settings)
    known = file.get(key_id)
    key, digest = new_secret(key_id, read_pepper(settings))
    file.replace(key_id, replace(known, digest=digest).line)
    tell_key(key)


def revoke(settings: Settings, key_id: str) -> None:
    file = KeyFile(settings)
    known = file.get(key_id)
    file.replace(key_id, None)
    print(f"revoked: {summary_of(known)}")


def run(settings: Settings, chosen: argparse.Namespace) -> None:
    """Raises InvalidSettings, ValueError, OSError."""
    match chosen.command:
        case "new":
            new_key(settings, chosen)
        case "list":
            for known in KeyFile(settings).keys().values():
                print(summary_of(known))
        case "show":
            print(summary_of(KeyFile(settings).get(chosen.id)))
        case "rotate":
            rotate(settings, chosen.id)
        case _:
            revoke(settings, chosen.id)


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = parse(arguments)
    try:
        run(checked_settings(), chosen)
    except (InvalidSettings, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
