"""What a key may do."""

from __future__ import annotations

from enum import IntEnum


class Role(IntEnum):
    """Each may do all that those below it may."""

    READER = 1  # read what its key owns, and what is nobody's
    SUBMITTER = 2  # make jobs and matrices, change and delete its own
    OPERATOR = 3  # see and cancel everyone's jobs, and run the service

    @property
    def word(self) -> str:
        return self.name.lower()

    @classmethod
    def of(cls, word: str) -> Role:
        """Raises KeyError for a word that is no role."""
        return cls[word.upper()]


ROLES = tuple(role.word for role in Role)
