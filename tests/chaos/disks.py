"""Small disks of our own, which can be full or read-only: a tmpfs each, where the harness may mount one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

NAMESPACE = "MATMUL_CHAOS_NAMESPACE"  # set in the process that has mounts of its own
TRIES = 100
DISK_BYTES = 1 << 30  # memory is used only as far as it is written


def enter_namespace(arguments: Sequence[str]) -> None:
    """Starts this program anew with mounts of its own, which end with it, where the system allows that."""
    unshare = shutil.which("unshare")
    if NAMESPACE in os.environ or unshare is None or os.geteuid() != 0:
        return
    own = [unshare, "--mount", "--propagation", "private"]
    tried = subprocess.run([*own, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
    if tried.returncode == 0:
        os.environ[NAMESPACE] = "1"
        os.execv(unshare, [*own, sys.executable, "-m", "tests.chaos", *arguments])


class Disk:
    """At `point`, a directory. `is_own`: whether it is a tmpfs, so that it can be filled."""

    def __init__(self, point: Path) -> None:
        point.mkdir(parents=True, exist_ok=True)
        self.point = point
        self.is_own = NAMESPACE in os.environ
        if self.is_own:
            _mount("-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "none", str(point))

    def fill(self) -> None:
        """No room is left: its size becomes what is used. That is refused where more was used meanwhile."""
        for _ in range(TRIES):
            used = os.statvfs(self.point)
            if self._resize((used.f_blocks - used.f_bfree) * used.f_frsize):
                return
        raise OSError(f"{self.point} could not be filled")

    def make_room(self) -> None:
        self._resize(DISK_BYTES)

    def _resize(self, size: int) -> bool:
        asked = ["mount", "-o", f"remount,size={max(size, 4096)}", str(self.point)]
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0

    def protect(self, directory: Path) -> None:
        """What is opened by a path in that directory from now on cannot be written."""
        aside = directory.with_name("read-only")  # where no one writes: a mount with writers stays writable
        aside.mkdir(exist_ok=True)
        _mount("--bind", str(directory), str(aside))
        _mount("-o", "remount,ro,bind", str(aside))
        _mount("--bind", str(aside), str(directory))
        _mount_ended(aside)

    def unprotect(self, directory: Path) -> None:
        _mount_ended(directory)

    def close(self) -> None:
        if self.is_own:
            _mount_ended(self.point)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _mount_ended(directory: Path) -> None:
    subprocess.run(["umount", "--lazy", str(directory)], check=True)
