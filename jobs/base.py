"""What all models of the contract are made of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A frozen model that refuses fields it does not know, by name.

    Of the strings in JSON, pydantic would keep thousands for the next time: ids that never come again, which lie
    between what is freed and hold its memory. Only names of fields are worth it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, cache_strings="keys")


class UnknownRequest(Strict):
    """What was asked, as another version of the service recorded it and in a form that this one does not know."""

    model_config = ConfigDict(extra="allow", frozen=True, cache_strings="keys")
