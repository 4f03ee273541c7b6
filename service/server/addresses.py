"""The sockets that the API answers on: an address and port and, where one is set, a Unix socket."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from jobs.errors import InvalidSettings
from jobs.settings import Settings

SHUTDOWN_S = 10  # for answers in progress, once a server stops
NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # a name may resolve to an address that this machine lacks


class Addresses:
    """Bound sockets, held by a process that listens on them or keeps them for others."""

    def __init__(self, sockets: Sequence[socket.socket], path: Path | None = None) -> None:
        self.sockets = sockets
        self._path = path  # path of the Unix socket, if this process must remove it

    @classmethod
    def inherited(cls, descriptors: Iterable[int]) -> Addresses:
        """Sockets that another process bound."""
        return cls([socket.socket(fileno=each) for each in descriptors])

    @property
    def port(self) -> int:
        """The bound port, also if the setting is 0."""
        return _port_of(self.sockets)

    def close(self) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None
        for each in self.sockets:
            each.close()


def bind(settings: Settings) -> Addresses:
    """Binds without listening: connections are refused until an API process listens. Raises InvalidSettings if an
    address cannot be used.
    """
    bound = _bind_port(settings.host, settings.port)
    if settings.unix_socket is None:
        return Addresses(bound)
    path = settings.unix_socket.absolute()
    try:
        return Addresses([*bound, _bind_path(path, settings.unix_socket_mode)], path)
    except BaseException:
        Addresses(bound).close()
        raise


def _port_of(sockets: Sequence[socket.socket]) -> int:
    port: int = sockets[0].getsockname()[1]
    return port


def _bind_port(host: str, port: int) -> list[socket.socket]:
    """A socket for each address that the host name resolves to, all with the same port."""
    bound: list[socket.socket] = []
    refused: OSError | None = None
    try:
        for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            try:
                bound.append(_bind_one(family, (address[0], _port_of(bound) if bound else port, *address[2:])))
            except OSError as error:
                if error.errno not in NOT_HERE:
                    raise
                refused = error
        if not bound and refused is not None:
            raise refused
    except OSError as error:
        Addresses(bound).close()
        raise InvalidSettings(f"{host} port {port} cannot be used ({error.strerror}); {_advice(error, port)}") from None
    return bound


def _advice(error: OSError, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"stop what uses it, or choose another: MATMUL_PORT={port % 65535 + 1}"
    if error.errno == errno.EACCES:
        return "ports below 1024 are the system's: set MATMUL_PORT to a higher one."
    return "set MATMUL_HOST to an address of this machine, or to 0.0.0.0 for all of them."


def _bind_one(family: int, address: tuple[object, ...]) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)  # 0.0.0.0 has a socket of its own
        made.bind(address)
    except BaseException:
        made.close()
        raise
    return made


def _bind_path(path: Path, mode: int) -> socket.socket:
    """Binds a Unix socket, replacing one on which nobody listens any more. Nobody can connect before the mode is set,
    because the socket does not listen yet.
    """
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_left(path)
        made.bind(str(path))
        os.chmod(path, mode)
    except OSError as error:
        made.close()
        raise InvalidSettings(
            f"MATMUL_UNIX_SOCKET: {path} cannot be used ({error.strerror}); stop what uses it, or name a path in "
            "another directory."
        ) from None
    return made


def _remove_left(path: Path) -> None:
    """Removes the socket of a killed process. Raises OSError if the path is anything else."""
    try:
        is_socket = stat.S_ISSOCK(os.lstat(path).st_mode)
    except FileNotFoundError:
        return
    if not is_socket:
        raise FileExistsError(errno.EEXIST, "it is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise OSError(errno.EADDRINUSE, "someone answers there")
