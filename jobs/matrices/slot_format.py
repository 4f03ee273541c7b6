"""How a matrix lies in a slot: a file of one of a few lengths, whose memory other matrices have used and will use.

The elements begin at offset 0, the digests of their parts follow, and the last TRAILER_BYTES say how large the matrix
is. What lies between is left over from matrices before it. The length follows from the matrix's size alone.
"""

from __future__ import annotations

import struct

from xxhash import xxh3_64_intdigest

from jobs.matrices.interface import parts_bytes

SLOT_PART = ".slot"  # how the name of a slot that is being written ends
MIN_SLOT_BYTES = 256 << 10  # a smaller matrix is cheaper in a file of its own
STEPS = 8  # lengths to an octave, so at most an eighth of a slot is unused
PAGE_BYTES = 4096
_TRAILER = struct.Struct("<8sQQQ")  # magic, bytes of the elements, bytes of the digests, XXH3-64 of these three
_MAGIC = b"MMSLOT01"
TRAILER_BYTES = _TRAILER.size


def capacity(size: int) -> int:
    """The most elements, in bytes, of a slot that a matrix of `size` bytes is kept in."""
    step = 1 << max(0, (size - 1).bit_length() - STEPS.bit_length())
    return -(-size // step) * step


def slot_length(size: int) -> int:
    """The length of the slot's file. Never that of the plain file: elements, digests and no more."""
    held = capacity(size)
    return held + _pages(parts_bytes(held) + TRAILER_BYTES)


def is_slot_length(length: int) -> bool:
    """Whether slots have this length."""
    if length < MIN_SLOT_BYTES:
        return False
    step = 1 << (length.bit_length() - STEPS.bit_length())
    held = length // step * step  # the digests and the trailer take less than a step
    return held >= MIN_SLOT_BYTES and slot_length(held) == length


def trailer(size: int) -> bytes:
    """What ends a slot that holds a matrix of `size` bytes."""
    said = _TRAILER.pack(_MAGIC, size, parts_bytes(size), 0)[:-8]
    return said + struct.pack("<Q", xxh3_64_intdigest(said))


def _pages(size: int) -> int:
    return -(-size // PAGE_BYTES) * PAGE_BYTES
