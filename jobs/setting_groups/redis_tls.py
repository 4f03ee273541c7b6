"""TLS to Redis: checks what a `rediss://` URL asks for before anything connects, and explains refusals.

The names are redis-py's: `ssl_ca_certs`, `ssl_certfile` and `ssl_keyfile` are files in PEM.
"""

from __future__ import annotations

import inspect
import ssl
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from redis.connection import SSLConnection, parse_url

from jobs.errors import InvalidSettings

SCHEME = "rediss://"
_PREFIX = "ssl_"
_KNOWN = tuple(name for name in inspect.signature(SSLConnection.__init__).parameters if name.startswith(_PREFIX))


def tls_options(url: str) -> dict[str, Any]:
    """Connection options; empty if the URL does not ask for TLS. The server's certificate is verified unless the URL
    says otherwise; kombu's own default would not verify it.
    """
    if not url.startswith(SCHEME):
        return {}
    asked = {name: value for name, value in parse_url(url).items() if name.startswith(_PREFIX)}  # type: ignore[no-untyped-call]
    return {"ssl_cert_reqs": "required", **asked}


def without_tls_options(url: str) -> str:
    parts = urlsplit(url)
    kept = "&".join(each for each in parts.query.split("&") if not each.startswith(_PREFIX))
    return parts._replace(query=kept).geturl()


def check_tls(url: str) -> None:
    """Raises InvalidSettings if a file is missing or invalid, or a parameter is misspelt."""
    named = [name for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True) if name.startswith(_PREFIX)]
    if named and not url.startswith(SCHEME):
        raise InvalidSettings(f"MATMUL_REDIS_URL has {named[0]}, but no TLS: let it begin with {SCHEME}.")
    if unknown := [name for name in named if name not in _KNOWN]:
        raise InvalidSettings(
            f"MATMUL_REDIS_URL has {unknown[0]}, which is unknown; ssl_ca_certs, ssl_certfile and ssl_keyfile are "
            "the files that it may name."
        )
    try:
        options = tls_options(url)
    except ValueError as error:
        raise InvalidSettings(f"MATMUL_REDIS_URL: {error}") from None
    _check_files(options)


def _check_files(options: dict[str, Any]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority, folder = options.get("ssl_ca_certs"), options.get("ssl_ca_path")
    mine, key = options.get("ssl_certfile"), options.get("ssl_keyfile")
    try:
        if authority or folder:
            context.load_verify_locations(authority, folder)
    except OSError as error:
        raise InvalidSettings(f"MATMUL_REDIS_URL: ssl_ca_certs is {authority or folder}, {_what_is(error)}.") from None
    if key and not mine:
        raise InvalidSettings("MATMUL_REDIS_URL has ssl_keyfile without ssl_certfile; a certificate takes both.")
    try:
        if mine:
            context.load_cert_chain(mine, key, options.get("ssl_password"))
    except OSError as error:
        named = f"ssl_certfile is {mine}" + (f" and ssl_keyfile {key}" if key else "")
        raise InvalidSettings(f"MATMUL_REDIS_URL: {named}, {_what_is(error)}.") from None


def _what_is(error: OSError) -> str:
    """An SSLError is an OSError too."""
    if isinstance(error, ssl.SSLError):
        return f"which is not what it should be in PEM ({error.reason or 'no certificate in it'})"
    return f"which cannot be read ({error.strerror})"


def refusal(error: BaseException) -> str | None:
    """A sentence that says why TLS failed, if that is the cause of an error of redis-py; otherwise None."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, ssl.SSLError):
        seen = seen.__cause__ or seen.__context__
    if seen is None:
        return None
    if isinstance(seen, ssl.SSLCertVerificationError):
        return (
            f"The certificate of Redis is not accepted ({seen.verify_message}); name the one of its authority in "
            "MATMUL_REDIS_URL, as ?ssl_ca_certs=<file>."
        )
    return (
        f"Redis and this process do not agree on TLS ({seen.reason or seen}); where it asks for a certificate, name "
        "one in MATMUL_REDIS_URL, as ?ssl_certfile=<file>&ssl_keyfile=<file>."
    )
