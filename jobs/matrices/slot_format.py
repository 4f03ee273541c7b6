"""The layout of a matrix in a slot, which is a file of one of a few lengths whose memory is reused by other matrices.
The elements begin at offset 0, the digests of their parts follow, and the last TRAILER_BYTES contain the matrix's size.
The bytes in between are left over from earlier matrices. The file's length depends only on the matrix's size.

Before the size a slot on a disk has a label of the matrix that lies in it: a power cut may leave a new name, and the
elements, digests and label of an earlier matrix.
"""

from __future__ import annotations

import struct

from xxhash import xxh3_64_intdigest, xxh3_128_digest

from jobs.matrices.interface import parts_bytes

SLOT_PART = ".slot"  # how the name of a slot that is being written ends
MIN_SLOT_BYTES = 256 << 10  # a smaller matrix is cheaper in a file of its own
STEPS = 8  # lengths to an octave, so at most an eighth of a slot is unused
PAGE_BYTES = 4096
_TRAILER = struct.Struct("<8sQQQ")  # magic, bytes of the elements, bytes of the digests, XXH3-64 of these three
_MAGIC = b"MMSLOT01"
TRAILER_BYTES = _TRAILER.size
_LABEL_MAGIC = b"MMLABEL1"
LABEL_BYTES, NAMED_BYTES = 32, 24  # all of a label, and its beginning, which follows from the matrix's id alone


def capacity(size: int) -> int:
    """The capacity, in bytes of elements, of the slot for a matrix of `size` bytes."""
    step = 1 << max(0, (size - 1).bit_length() - STEPS.bit_length())
    return -(-size // step) * step


def slot_length(size: int) -> int:
    """The length of the slot's file. It never equals the length of a plain file of that size (elements and digests
    only).
    """
    held = capacity(size)
    return held + _pages(parts_bytes(held) + TRAILER_BYTES)


def is_slot_length(length: int) -> bool:
    """Whether some slot has this length."""
    if length < MIN_SLOT_BYTES:
        return False
    step = 1 << (length.bit_length() - STEPS.bit_length())
    held = length // step * step  # the digests and the trailer take less than a step
    return held >= MIN_SLOT_BYTES and slot_length(held) == length


def trailer(size: int) -> bytes:
    """The last bytes of a slot that holds a matrix of `size` bytes."""
    said = _TRAILER.pack(_MAGIC, size, parts_bytes(size), 0)[:-8]
    return said + struct.pack("<Q", xxh3_64_intdigest(said))


def label(matrix_id: str, parts: bytes) -> bytes:
    """What stands before the trailer of a slot on a disk: magic, XXH3-128 of the matrix's id, XXH3-64 of the digests of
    its parts, `parts`, as they are stored."""
    return _LABEL_MAGIC + xxh3_128_digest(matrix_id.encode()) + struct.pack("<Q", xxh3_64_intdigest(parts))


def _pages(size: int) -> int:
    return -(-size // PAGE_BYTES) * PAGE_BYTES
