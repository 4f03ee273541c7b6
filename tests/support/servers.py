"""Options of a Redis server that a test kills."""

from __future__ import annotations

# Synced every second, a server may hold back writes that it acknowledged, for up to two seconds, while its disk is
# still busy with the sync before.
DURABLE = ("appendfsync always",)
