"""Disks that are full, read-only or gone."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.disks import Disk
from tests.chaos.faults.fault import Fault
from tests.chaos.stack import ChaosStack

AT_FDCWD, RENAME_EXCHANGE = -100, 2


def full_append_file(stack: ChaosStack, fault: Fault) -> bool:
    with _full(stack.redis_disk):
        time.sleep(fault.seconds)
    return True


def full_append_file_and_killed(stack: ChaosStack, fault: Fault) -> bool:
    """What was acknowledged while there was no room must be there after a crash."""
    with _full(stack.redis_disk):
        time.sleep(fault.seconds)
        stack.redis.kill()
    stack.redis.start()
    return True


def full_store(stack: ChaosStack, fault: Fault) -> bool:
    with _full(stack.store_disk):
        time.sleep(fault.seconds)
    return True


def read_only_store(stack: ChaosStack, fault: Fault) -> bool:
    store = _store(stack, fault)
    stack.store_disk.protect(store)
    time.sleep(fault.seconds)
    stack.store_disk.unprotect(store)
    return True


def store_gone(stack: ChaosStack, fault: Fault) -> bool:
    """A plain file stands where the directory was."""
    store = _store(stack, fault)
    other = store.with_name("not a directory")
    other.touch()
    _exchange(store, other)
    time.sleep(fault.seconds)
    _exchange(store, other)
    return True


def _store(stack: ChaosStack, fault: Fault) -> Path:
    """Of one of the hosts."""
    return stack.stores[fault.number % len(stack.stores)]


@contextmanager
def _full(disk: Disk) -> Iterator[None]:
    disk.fill()
    yield
    disk.make_room()


def _exchange(one: Path, other: Path) -> None:
    """Both names at once, so that no one sees neither."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE):
        raise OSError(ctypes.get_errno(), "the store could not be moved")
