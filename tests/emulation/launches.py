"""Launches as the emulation's main.cpp reads them: a grid, numbers, and arrays with gaps between their rows."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jobs.formats.elements import Array
from kernels.model.launch_plan import Launch
from tests.emulation.programs import ENVIRONMENT, Compiled

TIMEOUT_S = 240
SAID_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class Layout:
    """How (matrices, rows, columns) lie in memory, in elements; no kernel may touch what lies between rows."""

    pitch: int  # from one row to the next
    stride: int  # from one matrix to the next
    offset: int = 0  # of the first element, from an address that is a multiple of 16 bytes


@dataclass(frozen=True, slots=True)
class Memory:
    """One array of a kernel's arguments."""

    shape: tuple[int, ...]  # matrices, rows, columns
    dtype: np.dtype[Any]
    layout: Layout
    contents: bytes = b""  # row after row; what it leaves out starts as garbage
    is_result: bool = False

    @classmethod
    def flat(cls, array: Array, *, is_result: bool = False) -> Memory:
        """An array without gaps."""
        return cls((1, 1, array.size), array.dtype, Layout(array.size, 0), array.tobytes(), is_result)

    def packed(self) -> bytes:
        size = self.dtype.itemsize
        matrices, rows, columns = self.shape
        at = self.layout
        sizes = (at.offset * size, matrices, rows, columns * size, at.pitch * size, at.stride * size)
        return _words(*sizes, len(self.contents), self.is_result) + self.contents


@dataclass(frozen=True, slots=True)
class Run:
    """One launch with its arguments, in the kernel's order: arrays and numbers are told apart by their types there."""

    launch: Launch
    memories: tuple[Memory, ...]
    numbers: tuple[int, ...]
    order: int = 0  # in which blocks, warps and lanes take turns: 0 rising, 1 falling, else shuffled by it
    label: object = ""  # for messages
    late: int = -1  # the thread of each cluster that has a turn only where no other goes on; -1: none

    def packed(self) -> bytes:
        (x, _, z), (block_x, block_y, _) = self.launch.grid, self.launch.block
        at = (x, z, block_x, block_y, self.launch.shared_bytes, self.launch.cluster, self.order, self.late)
        return _words(*at, len(self.numbers), len(self.memories), *self.numbers) + b"".join(
            memory.packed() for memory in self.memories
        )


def execute(kernel: Compiled, runs: Iterable[Run]) -> list[list[Array]]:
    """The results of each run. Raises AssertionError with what the program said where it ended itself."""
    runs = list(runs)
    command, given = kernel.command, b"".join(run.packed() for run in runs)
    done = subprocess.run(command, input=given, capture_output=True, timeout=TIMEOUT_S, env=ENVIRONMENT)
    assert done.returncode == 0, _told(done.stderr.decode(errors="replace"), runs)
    results: list[list[Array]] = []
    at = 0
    for run in runs:
        results.append([])
        for memory in run.memories:
            if memory.is_result:
                count = int(np.prod(memory.shape))
                results[-1].append(np.frombuffer(done.stdout, memory.dtype, count, at).reshape(memory.shape))
                at += count * memory.dtype.itemsize
    assert at == len(done.stdout)
    return results


def _told(said: str, runs: list[Run]) -> str:
    at = re.search(r"In launch (\d+)\..*", said)
    where = f"{runs[int(at[1])].label} {at[0]}\n" if at else ""
    return where + said[:SAID_CHARACTERS]


def _words(*numbers: int) -> bytes:
    return np.array(numbers, np.int64).tobytes()
