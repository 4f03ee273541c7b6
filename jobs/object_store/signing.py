"""Binds a presigned URL to the size of what may be sent to it. obstore signs a URL for its host and path alone, so it
would take whatever the store takes in one PUT.

The URL is signed again with `content-length` among its signed headers (AWS Signature Version 4, query parameters), so
the store itself refuses every other size. Host, path, scope and dates stay as obstore made them.
"""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

SIGNATURE = "X-Amz-Signature"
SIGNED_HEADERS = "X-Amz-SignedHeaders"


def bind_to_size(url: str, method: str, secret: str, size: int) -> str | None:
    """The URL, for a body of exactly `size` bytes; None if it was signed with another secret key than this."""
    host_alone = {"host": urlsplit(url).netloc}
    if _signed_again(url, method, secret, host_alone) != url:
        return None
    return _signed_again(url, method, secret, {"content-length": str(size), **host_alone})


def _signed_again(url: str, method: str, secret: str, headers: dict[str, str]) -> str:
    """The URL with the signature for these headers, which are in the order of their names."""
    target = urlsplit(url)
    fields = dict(parse_qsl(target.query, keep_blank_values=True))
    del fields[SIGNATURE]
    fields[SIGNED_HEADERS] = ";".join(headers)
    signature = _signature(method, target.path, fields, headers, secret)
    return urlunsplit(target._replace(query=f"{_query(fields)}&{SIGNATURE}={signature}"))


def _signature(method: str, path: str, fields: dict[str, str], headers: dict[str, str], secret: str) -> str:
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    in_order = dict(sorted(fields.items()))
    request = "\n".join([method, path, _query(in_order), lines, fields[SIGNED_HEADERS], "UNSIGNED-PAYLOAD"])
    algorithm, date = fields["X-Amz-Algorithm"], fields["X-Amz-Date"]
    scope = fields["X-Amz-Credential"].partition("/")[2]
    digest = hashlib.sha256(request.encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in (*scope.split("/"), "\n".join([algorithm, date, scope, digest])):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


def _query(fields: dict[str, str]) -> str:
    return "&".join(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in fields.items())
