"""Base classes of all models in the contract between service and workers."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A frozen model that refuses unknown fields and names them.

    String caching is limited to field names. By default pydantic caches thousands of JSON strings, among them ids that
    never recur, and these small objects keep the freed memory around them from being released.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, cache_strings="keys")


class UnknownRequest(Strict):
    """A request that another version of the service recorded in a form that this version does not know."""

    model_config = ConfigDict(extra="allow", frozen=True, cache_strings="keys")
