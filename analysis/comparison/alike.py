"""Whether two cases were measured alike. If not, neither is called faster: a warm cache or zeros as data make the same
kernel faster.

What a source does not say is taken to be alike.
"""

from __future__ import annotations

from collections.abc import Mapping

from analysis.measurement import Measurement


def how_measured(measurement: Measurement) -> Mapping[str, str | None]:
    """How it was measured, as far as that makes a kernel faster or slower."""
    return {"cache": measurement.cache, "rows": measurement.layout, "data": measurement.data}


def unlike(before: Measurement, after: Measurement) -> str | None:
    """A sentence if the two were measured in different ways."""
    pairs = zip(how_measured(before).items(), how_measured(after).values(), strict=True)
    differing = [f"{what} {was} before, {now} after" for (what, was), now in pairs if was and now and was != now]
    return f"Not measured alike: {'; '.join(differing)}." if differing else None
