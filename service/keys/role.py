"""What a key may do."""

from __future__ import annotations

from enum import IntEnum


class Role(IntEnum):
    """The roles; each may do everything that the lower ones may."""

    READER = 1  # read what its key owns, and what has no owner
    SUBMITTER = 2  # create jobs and matrices, change and delete its own
    OPERATOR = 3  # see and cancel everyone's jobs, and run the service

    @property
    def word(self) -> str:
        return self.name.lower()

    @classmethod
    def of(cls, word: str) -> Role:
        """The role of that name. Raises KeyError for an unknown one."""
        return cls[word.upper()]


ROLES = tuple(role.word for role in Role)
