"""What all models of the contract are made of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A frozen model that refuses fields it does not know, by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)
