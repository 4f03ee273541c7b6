"""What all models of the contract are made of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A frozen model that refuses fields it does not know, by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class UnknownRequest(Strict):
    """What was asked, as another version of the service recorded it and in a form that this one does not know."""

    model_config = ConfigDict(extra="allow", frozen=True)
