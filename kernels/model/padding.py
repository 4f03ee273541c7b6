"""How far a size may be padded with zeros without cost, within the padding that matrices have on a device."""

from __future__ import annotations

ALIGNMENT_BYTES = 256  # of a row
WASTE = 8  # at most a row's 1/WASTE is spent on its padding
MAX_PAD = 64  # elements: libraries are fastest at multiples of it
MIN_PADDED = 256  # smaller sizes stay as they are: filling their padding takes as long as it gains


def padded_size(size: int, pad: int, itemsize: int) -> int:
    """The next multiple of `pad`, or of less where that would be more than 1/WASTE of the size or ALIGNMENT_BYTES: so
    rows at a padded pitch have room for it."""
    if size < MIN_PADDED:
        return size
    return round_up(size, min(pad, ALIGNMENT_BYTES // itemsize, power_of_two_below(size // WASTE)))


def pitch_bytes(row_bytes: int, multiple: int = 1) -> int:
    """Bytes from one row of a matrix on a device to the next: a multiple of ALIGNMENT_BYTES (or of less, for short
    rows), and of `multiple`."""
    alignment = min(ALIGNMENT_BYTES, power_of_two_below(row_bytes // WASTE))
    return round_up(max(row_bytes, 1), max(alignment, multiple))


def power_of_two_below(value: int) -> int:
    """Or the value itself; 1 below 1."""
    return 1 << (value.bit_length() - 1) if value > 0 else 1


def round_up(value: int, step: int) -> int:
    return -(-value // step) * step
