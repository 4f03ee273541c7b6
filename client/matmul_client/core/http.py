"""What both clients need for HTTP: the service's address, the headers of a request, and the timeouts of its phases."""

from __future__ import annotations

import os
import ssl
from urllib.parse import urlsplit

from matmul_client.core.errors import MatmulError
from matmul_client.core.wire import NoReply, Request
from matmul_client.version import __version__

DEFAULT_URL = "http://127.0.0.1:8000"
DEFAULT_TIMEOUT_S, DEFAULT_RETRIES = 300.0, 20
CLEAN_UP_S = 2.0  # how long an abandoned call may take to cancel its jobs
CONNECT_S, STALL_S = 10.0, 10.0  # to connect; between two pieces of a reply
PIECE_BYTES = 1 << 20  # of a body, sent or received at a time
LATE = "The reply did not come in time."
EVENTS_ENDED = "The stream of events ended early."


class Service:
    """The service's URL and the API key: given, or from MATMUL_URL and MATMUL_API_KEY."""

    def __init__(self, url: str | None, api_key: str | None) -> None:
        self.url = (url or os.environ.get("MATMUL_URL") or DEFAULT_URL).rstrip("/")
        try:
            parts = urlsplit(self.url)
            self.host = (parts.hostname or "").encode("idna").decode()
            port = parts.port
        except ValueError:
            raise MatmulError(_no_url(self.url)) from None
        is_plain = self.url.isprintable() and " " not in self.url and parts.path.isascii()
        if parts.scheme not in ("http", "https") or not self.host or not is_plain:
            raise MatmulError(_no_url(self.url))
        if parts.username is not None or parts.query or parts.fragment:
            what = "a user" if parts.username is not None else "a ? or #"
            raise MatmulError(f"The service's URL may have no more than a host, a port and a path; leave out {what}.")
        if parts.path.endswith(("/v1", "/v2")):
            raise MatmulError(f"The service's URL {self.url!r} has a version; leave out {parts.path[-3:]}.")
        self.port, self.is_secure, self._prefix = port, parts.scheme == "https", parts.path
        key = api_key or os.environ.get("MATMUL_API_KEY") or ""
        if not (key.isascii() and key.isprintable()):
            raise MatmulError("The API key has characters that no key has, such as the end of a line; leave them out.")
        host = f"[{self.host}]" if ":" in self.host else self.host
        authority = host if port is None else f"{host}:{port}"
        self.base = f"{parts.scheme}://{authority}{parts.path}"
        self._headers = {"host": authority, "user-agent": f"matmul-client/{__version__}"}
        self._headers |= {"authorization": f"Bearer {key}"} if key else {}

    def target(self, request: Request) -> str:
        return self._prefix + request.target

    def headers(self, request: Request) -> dict[str, str]:
        """All headers of a request, with the length of its body."""
        headers = {**self._headers, **request.headers}
        if request.body or request.method in ("POST", "PUT"):
            headers["content-length"] = str(request.body_bytes)
        return headers


def _no_url(url: str) -> str:
    shown = url.rpartition("@")[2]  # what stands before may be a password
    return f"The service's URL {shown!r} is not one; give http://host:port."


def unreachable(url: str, error: Exception) -> NoReply:
    """No connection was made: the service has seen nothing of the request."""
    what_to_do = "Is it running?"
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        what_to_do = "If you know its certificate, trust it by ssl_context or SSL_CERT_FILE."
    elif isinstance(error, ssl.SSLError) or "[SSL:" in str(error):  # as httpx2 tells it
        what_to_do = "Does it speak plain http://?"
    return NoReply(f"The service at {url} cannot be reached: {_words(error)}. {what_to_do}", may_have_arrived=False)


def broken(url: str, error: Exception) -> NoReply:
    return NoReply(f"The connection to {url} broke off: {_words(error)}.", may_have_arrived=True)


def _words(error: Exception) -> str:
    """On one line, however many the error has."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
