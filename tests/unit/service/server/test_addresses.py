"""The addresses that the API binds."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from jobs.errors import InvalidSettings
from jobs.redis.embedded import free_port
from jobs.settings import Settings
from service.server.addresses import Addresses, bind


def settings_with(path: Path | None = None, **others: object) -> Settings:
    return Settings.model_validate({"port": 0, "unix_socket": path, **others})


def test_a_free_port_is_found_and_known() -> None:
    bound = bind(settings_with())
    assert bound.port == bound.sockets[0].getsockname()[1] > 0
    bound.close()


def test_a_name_may_stand_for_several_addresses_on_one_port() -> None:
    bound = bind(settings_with(host="localhost"))
    assert {each.getsockname()[1] for each in bound.sockets} == {bound.port}
    bound.close()


def test_nobody_connects_before_a_process_listens() -> None:
    bound = bind(settings_with())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", bound.port), timeout=5)
    bound.close()


def test_no_port_is_handed_out_twice_nor_by_processes_that_started_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though nothing listens on any of them yet."""
    pid = os.getpid()
    ports: list[int] = []
    for other in range(pid, pid + 6):
        monkeypatch.setattr(os, "getpid", lambda other=other: other)
        ports += [free_port() for _ in range(100)]
    assert len(set(ports)) == len(ports)


def test_a_port_in_use_is_a_sentence() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)), pytest.raises(InvalidSettings, match=f"port {port} cannot be used"):
        bind(settings_with(port=port))


def test_an_address_of_another_machine_is_another_sentence() -> None:
    with pytest.raises(InvalidSettings, match="set MATMUL_HOST to an address of this machine"):
        bind(Settings(host="192.0.2.1"))


def test_a_unix_socket_has_its_mode_and_goes_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    assert Settings().unix_socket_mode == 0o600
    for mode in ("660", "600"):
        bound = bind(settings_with(path, unix_socket_mode=mode))
        assert stat.S_IMODE(path.stat().st_mode) == int(mode, 8)
        bound.close()
        assert not path.exists()


def test_the_socket_of_a_killed_process_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    bind(settings_with(path)).close()
    assert not path.exists()


def test_a_unix_socket_in_use_stays_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(InvalidSettings, match="someone answers there"):
            bind(settings_with(path))
        assert path.exists()


def test_a_file_is_not_taken_for_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("keep me")
    with pytest.raises(InvalidSettings, match="it is not a socket"):
        bind(settings_with(path))
    assert path.read_text() == "keep me"


def test_an_inherited_socket_is_not_removed_by_who_inherits(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    bound = bind(settings_with(path))
    inherited = Addresses.inherited(os.dup(each.fileno()) for each in bound.sockets)
    assert inherited.port == bound.port
    inherited.close()
    assert path.exists()
    bound.close()
