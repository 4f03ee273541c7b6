"""Lines of the key file, and the commands that change it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from jobs.errors import InvalidSettings, Unauthenticated
from jobs.settings import Settings, get_settings
from service.keys import KeyRing, Role, make_key, parse_lines
from service.keys.__main__ import main, read_expiry
from service.keys.wrong_keys import MAX_ADDRESSES, WrongKeys, address_of

PEPPER = "a pepper of more than sixteen bytes"
HASH = "0" * 64


def test_old_lines_are_submitters_that_do_not_expire() -> None:
    (known,) = parse_lines([f"abc:{HASH}:alice"]).values()
    assert (known.id, known.name, known.role, known.expires_at, dict(known.limits)) == (
        "abc",
        "alice",
        Role.SUBMITTER,
        None,
        {},
    )
    (known,) = parse_lines([f"abc:{HASH}:team:alice"]).values()
    assert known.name == "team:alice"


@pytest.mark.parametrize("number", [1.0, 500.0, 1.1 + 2.2, 1e15, 5.4444444444444444e80])
def test_a_limit_is_written_as_it_is(number: float) -> None:
    (known,) = parse_lines([f"abc:{HASH}:alice:jobs={number!r}"]).values()
    assert parse_lines([known.line])["abc"] == known


def test_a_line_says_role_expiry_and_limits() -> None:
    line = f"abc:{HASH}:alice:role=reader:expires=20270131T120000Z:jobs=5:flops_per_minute=1e+15"
    (known,) = parse_lines([line]).values()
    assert (known.name, known.role, known.expires_at) == ("alice", Role.READER, datetime(2027, 1, 31, 12, tzinfo=UTC))
    assert dict(known.limits) == {"jobs": 5, "flops_per_minute": 1e15}
    assert parse_lines([known.line])["abc"] == known
    far = parse_lines([f"abc:{HASH}:alice:expires=02270131T120000.5Z"])["abc"]
    assert parse_lines([far.line])["abc"] == far
    assert parse_lines([f"abc:{HASH}:alice:expires=2027-01-31"])["abc"].expires_at == datetime(2027, 1, 31, tzinfo=UTC)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("role=admin", "there is no role 'admin'; a role is one of reader, submitter, operator."),
        ("exipres=2027-01-31", "there is no 'exipres'"),
        ("expires=soon", "'soon' is no time"),
        ("expires=00010101T000000+2359", "is no time"),
        ("jobs=many", "jobs is 'many', but a limit is a number of at least 1."),
        ("jobs=0", "at least 1"),
        ("jobs=0.5", "at least 1"),
        ("flops_per_minute=1e-300", "at least 1"),
        ("jobs=nan", "at least 1"),
        ("jobs=inf", "at least 1"),
        ("jobs=5:jobs=7", "jobs is there twice."),
        ("role=operator:role=reader", "role is there twice."),
    ],
)
def test_a_wrong_option_is_refused(options: str, words: str) -> None:
    """Otherwise a misspelt option would give a key without that limit."""
    with pytest.raises(InvalidSettings, match=words):
        parse_lines([f"abc:{HASH}:alice:{options}"])


@pytest.mark.parametrize(
    "line",
    [
        f":{HASH}:alice",
        f"anonymous:{HASH}:alice",
        f"a b:{HASH}:alice",
        f"a_b:{HASH}:alice",
        f"{'a' * 65}:{HASH}:alice",
        f"é:{HASH}:alice",
        f"abc:{'A' * 64}:alice",
        f"abc:{'é' * 64}:alice",
        f"abc:{HASH[1:]}:alice",
    ],
)
def test_an_id_or_a_hash_that_no_key_has_is_refused(line: str) -> None:
    """An id is the owner of jobs, and `anonymous` the owner where keys are off."""
    with pytest.raises(InvalidSettings, match="API key line 2: it is not of the form <key id>:<hash>:<name>"):
        parse_lines(["# first", line])


def test_one_id_has_one_line() -> None:
    """Otherwise revoking the last of them would bring back another."""
    line = f"abc:{HASH}:alice"
    assert list(parse_lines([line, line])) == ["abc"]  # as from the file and the environment
    with pytest.raises(InvalidSettings, match="API key line 2: the id abc is there twice"):
        parse_lines([line, f"{line}:role=reader"])


def test_a_name_cannot_hold_an_option() -> None:
    made = make_key("eve:role=operator expires=", PEPPER.encode())
    (known,) = parse_lines([made.line]).values()
    assert known.role is Role.SUBMITTER


@pytest.fixture
def key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "keys"
    path.write_text(f"# who may ask\nabc:{HASH}:alice\n")
    path.chmod(0o640)
    monkeypatch.setenv("MATMUL_API_KEYS_FILE", str(path))
    monkeypatch.setenv("MATMUL_API_KEY_PEPPER", PEPPER)
    get_settings.cache_clear()
    yield path
    get_settings.cache_clear()


def key_in(text: str) -> str:
    return next(word for word in text.split() if word.startswith("mm_"))


def test_the_commands_change_the_file(key_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--role", "reader", "--expires", "90d", "--limit", "jobs=5", "--add"]
    assert main(["new", "--name", "grafana", *options]) == 0
    ring = KeyRing(Settings())
    first = key_in(capsys.readouterr().out)
    known = ring.known(first)
    assert (known.name, known.role, dict(known.limits)) == ("grafana", Role.READER, {"jobs": 5})
    assert known.expires_at is not None and timedelta(days=89) < known.expires_at - datetime.now(UTC) < timedelta(
        days=90
    )

    assert main(["list"]) == main(["show", known.id]) == 0
    out = capsys.readouterr().out
    assert known.digest not in out and "grafana  reader  expires" in out and "alice  submitter  expires never" in out

    assert main(["rotate", known.id]) == 0
    second = key_in(capsys.readouterr().out)
    ring.reload()
    assert ring.known(second).id == known.id and ring.known(second).expires_at == known.expires_at
    with pytest.raises(Unauthenticated):
        ring.known(first)

    assert main(["revoke", known.id]) == 0
    ring.reload()
    assert ring.find(known.id) is None
    assert key_file.read_text() == f"# who may ask\nabc:{HASH}:alice\n"
    assert key_file.stat().st_mode & 0o777 == 0o640
    assert list(key_file.parent.iterdir()) == [key_file]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["revoke", "nobody"], "has no key nobody"),
        (["new", "--name", "x", "--expires", "soon"], "'soon' is no time"),
        (["new", "--name", "x", "--limit", "jobs"], "jobs is ''"),
        (["new", "--name", "x", "--limit", "speed=9"], "there is no 'speed'"),
    ],
)
def test_a_command_that_cannot_be_done_says_why(
    key_file: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    before = key_file.read_text()
    assert main(arguments) == 2
    assert words in capsys.readouterr().err
    assert key_file.read_text() == before


def test_an_expired_key_is_none(key_file: Path) -> None:
    """Nor is a session of it: its key is looked up at each request."""
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    made = make_key("late", PEPPER.encode(), expires_at=an_hour_ago)
    key_file.write_text(key_file.read_text() + made.line)
    ring = KeyRing(Settings())
    assert ring.find("abc") is not None and ring.find(made.line.split(":")[0]) is None
    with pytest.raises(Unauthenticated, match=f"expired on {an_hour_ago:%Y-%m-%d at %H:%M} UTC"):
        ring.known(made.key)


def test_expiry_in_words() -> None:
    assert read_expiry("never") is None
    assert read_expiry("2027-01-31T10:00+02:00") == datetime(2027, 1, 31, 8, tzinfo=UTC)


def test_a_wrong_file_leaves_the_keys_as_they_were(key_file: Path) -> None:
    ring = KeyRing(Settings())
    key_file.write_text("nonsense\n")
    ring.reload()
    assert ring.find("abc") is not None
    key_file.write_text("# none\n")
    ring.reload()
    assert ring.find("abc") is None


def test_a_file_that_is_no_text_leaves_the_keys_as_they_were(key_file: Path) -> None:
    ring = KeyRing(Settings())
    key_file.write_bytes(b"\xff\xfe\n")
    with capture_logs() as logs:
        ring.reload()
        ring.reload()
    assert ring.find("abc") is not None
    assert [one["reason"] for one in logs] == [f"{key_file} is no text in UTF-8."]
    with pytest.raises(InvalidSettings, match="is no text in UTF-8"):
        KeyRing(Settings())


def test_a_file_that_could_not_be_read_is_read_once_it_can(key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if nothing but its mode has changed. Whoever thinks it gone is told that its keys are not."""
    ring = KeyRing(Settings())
    key_file.write_text(f"def:{HASH}:bob\n")

    def refused(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    with capture_logs() as logs:
        with monkeypatch.context() as patched:
            patched.setattr(Path, "read_bytes", refused)
            for _ in range(3):
                ring.reload()
        assert [one["reason"] for one in logs] == ["Permission denied"]
    ring.reload()
    assert ring.find("abc") is None and ring.find("def") is not None
    key_file.unlink()
    with capture_logs() as logs:
        ring.reload()
        ring.reload()
    assert [one["reason"] for one in logs] == ["No such file or directory"] and ring.find("def") is not None


# ---- addresses ----
def test_failures_are_forgotten_evenly_and_addresses_are_bounded() -> None:
    now = 0.0
    attempts = WrongKeys(3, clock=lambda: now)
    assert [attempts.failed("a") for _ in range(5)] == [False, False, False, True, True]
    assert not attempts.failed("b")
    now = 20.0
    assert [attempts.failed("a") for _ in range(2)] == [False, True]
    for i in range(2 * MAX_ADDRESSES):
        attempts.failed(f"address {i}")
    assert len(attempts) == MAX_ADDRESSES


@pytest.mark.parametrize(
    ("client", "address"),
    [
        (("192.0.2.7", 1), "192.0.2.7"),
        (("2001:db8::1:2:3", 1), "2001:db8::/64"),
        (("2001:db8::ffff", 1), "2001:db8::/64"),
        (None, "local"),
        (("", 0), "local"),
    ],
)
def test_an_address_is_what_one_caller_cannot_choose(client: tuple[str, int] | None, address: str) -> None:
    assert address_of({"type": "http", "client": client}) == address
