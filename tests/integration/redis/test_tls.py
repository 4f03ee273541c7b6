"""What a `rediss://` URL may say, and in which words it is refused."""

from __future__ import annotations

import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kombu.exceptions import OperationalError
from pydantic import SecretStr
from redis.exceptions import ConnectionError as RedisConnectionError

from jobs.errors import InvalidSettings
from jobs.queue import make_celery
from jobs.redis.client import connect
from jobs.redis.layout import claim_layout
from jobs.setting_groups.redis_tls import check_tls, tls_options
from jobs.settings import Settings
from jobs.starting.wrong_settings import checked_settings
from tests.support.replicas.certificates import Authority, Certificate
from tests.support.replicas.endpoint import HOST, Endpoint, server_context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def mine(authority: Authority) -> Certificate:
    return authority.give("client")


def settings_of(url: str) -> Settings:
    return Settings(redis_url=SecretStr(url), redis_timeout_s=5)


def test_files_that_are_as_they_should_be_are_taken(authority: Authority, mine: Certificate) -> None:
    files = f"ssl_ca_certs={authority.file}&ssl_certfile={mine.certificate}&ssl_keyfile={mine.key}"
    check_tls(f"rediss://:secret@redis:6379/0?{files}")
    check_tls("rediss://redis:6379/0")
    check_tls("redis://redis:6379/0")


def test_what_is_wrong_is_said_in_a_sentence_without_the_password(
    authority: Authority, mine: Certificate, tmp_path: Path
) -> None:
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    other = Authority(tmp_path / "theirs").give("other")
    rest = f"ssl_ca_certs={authority.file}"
    for query, words in (
        (f"ssl_ca_certs={tmp_path / 'none.pem'}", "none.pem, which cannot be read"),
        (f"ssl_ca_certs={text}", "text.pem, which is not what it should be in PEM"),
        (f"{rest}&ssl_certfile={mine.certificate}&ssl_keyfile={other.key}", "which is not what it should be in PEM"),
        (f"{rest}&ssl_keyfile={mine.key}", "ssl_keyfile without ssl_certfile"),
        ("ssl_ca_cert=x", "ssl_ca_cert, which is unknown"),
        ("ssl_min_version=high", "ssl_min_version"),
    ):
        with pytest.raises(InvalidSettings, match=words) as told:
            check_tls(f"rediss://:secret@redis:6379/0?{query}")
        assert "secret" not in str(told.value.detail)
    with pytest.raises(InvalidSettings, match="no TLS: let it begin with rediss://"):
        check_tls(f"redis://redis:6379/0?{rest}")


def test_every_program_looks_at_it_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    from jobs.settings import get_settings

    monkeypatch.setenv("MATMUL_REDIS_URL", "rediss://redis:6379/0?ssl_ca_certs=/none.pem")
    get_settings.cache_clear()
    try:
        with pytest.raises(InvalidSettings, match="none"):
            checked_settings()
    finally:
        get_settings.cache_clear()


def test_the_broker_is_checked_too_where_the_url_says_nothing_of_it() -> None:
    """By itself kombu would take any certificate then."""
    with make_celery(settings_of("rediss://:secret@redis:6380/3")) as app, app.connection_for_read() as connection:
        assert connection.ssl == tls_options("rediss://redis") == {"ssl_cert_reqs": "required"}
        assert (connection.hostname, connection.port, connection.virtual_host) == ("redis", 6380, "3")


def test_an_authority_that_is_not_known_is_refused_by_all(authority: Authority, tmp_path: Path) -> None:
    theirs = Authority(tmp_path / "theirs")
    with Endpoint(1, server_context(theirs, asks_clients=False)) as endpoint:
        settings = settings_of(f"rediss://{HOST}:{endpoint.port}/0?ssl_ca_certs={authority.file}")
        with pytest.raises(InvalidSettings, match=r"The certificate of Redis is not accepted \(.*\); name the one of"):
            claim_layout(settings)
        with connect(settings) as client, pytest.raises(RedisConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
            client.ping()
        with (
            make_celery(settings) as app,
            app.connection_for_read() as broker,
            pytest.raises(OperationalError, match="CERTIFICATE_VERIFY_FAILED"),
        ):
            broker.ensure_connection(max_retries=1)


def test_a_server_under_another_name_is_refused(authority: Authority) -> None:
    given = authority.give("elsewhere", "127.9.9.9")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(given.certificate, given.key)
    with Endpoint(1, context) as endpoint, pytest.raises(InvalidSettings, match="mismatch"):
        claim_layout(settings_of(f"rediss://{HOST}:{endpoint.port}/0?ssl_ca_certs={authority.file}"))


def test_a_server_that_asks_for_a_certificate_refuses_who_has_none(authority: Authority) -> None:
    with socket.create_server((HOST, 0)) as listening, ThreadPoolExecutor(1) as pool:
        refusing = pool.submit(shake_hands, listening, server_context(authority))
        url = f"rediss://{HOST}:{listening.getsockname()[1]}/0?ssl_ca_certs={authority.file}"
        with pytest.raises(InvalidSettings, match="where it asks for a certificate, name one"):
            claim_layout(settings_of(url))
        assert "CERTIFICATE" in refusing.result()


def shake_hands(listening: socket.socket, context: ssl.SSLContext) -> str:
    """With one client; why it was refused."""
    accepted, _ = listening.accept()
    with accepted, pytest.raises(ssl.SSLError) as refused:
        context.wrap_socket(accepted, server_side=True)
    return str(refused.value)
