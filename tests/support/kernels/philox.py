"""The check's random numbers in numpy: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC11, 2011)."""

from __future__ import annotations

import numpy as np

from jobs.formats.elements import Array

LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def philox(counter: Array, key: tuple[int, int]) -> Array:
    """Four words of 32 bits for each counter (…, 4), as uint64."""
    words = [counter[..., i].astype(np.uint64) for i in range(4)]
    key_0, key_1 = key
    for _ in range(10):
        first, second = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [
            (second >> HALF) ^ words[1] ^ np.uint64(key_0),
            second & LOW,
            (first >> HALF) ^ words[3] ^ np.uint64(key_1),
            first & LOW,
        ]
        key_0, key_1 = (key_0 + 0x9E3779B9) & 0xFFFFFFFF, (key_1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(words, axis=-1)


def random_words(items: int, columns: int, parts: int, seed: tuple[int, int]) -> Array:
    """(items, columns, 4 · parts): what the device draws for each column, from a seed of two 64-bit words."""
    counter = np.zeros((items, columns, parts, 4), np.uint64)
    counter[..., 0] = np.arange(columns, dtype=np.uint64)[:, np.newaxis]
    counter[..., 1] = (np.arange(items * parts, dtype=np.uint64)).reshape(items, 1, parts)
    counter[..., 2], counter[..., 3] = seed[1] & 0xFFFFFFFF, seed[1] >> 32
    return philox(counter, (seed[0] & 0xFFFFFFFF, seed[0] >> 32)).reshape(items, columns, 4 * parts)


def random_integers(items: int, columns: int, seed: tuple[int, int]) -> Array:
    """uint64 (items, columns, 8)."""
    words = random_words(items, columns, 4, seed)
    whole: Array = words[..., 1::2] << HALF | words[..., 0::2]
    return whole


def random_factors(items: int, columns: int, seed: tuple[int, int]) -> Array:
    """±(1 + r), float64 (items, columns, 8)."""
    words = random_words(items, columns, 2, seed)
    fraction = (words & np.uint64(0x7FFFFFFF)).astype(np.float64) / 2.0**31
    return np.where(words >> np.uint64(31) == 1, -1.0, 1.0) * (1.0 + fraction)
