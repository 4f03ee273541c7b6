"""A run's kernels beside the library, as bars."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from analysis.answers.answer import in_words
from analysis.comparison.shares import Share, SharedProduct, shared_products
from analysis.measurement import Measurement
from analysis.plots.looks import looks
from service.dashboard.charts.shares import ShareBar, ShareGroup, draw
from service.dashboard.charts.svg import KERNEL_STYLES, Style, style_of
from service.dashboard.words import percent


def drawing(found: Sequence[Measurement]) -> Markup | None:
    """The chart; None if no product has a measurement of the library."""
    products = shared_products(found)
    if not products:
        return None
    by_label = looks((one.measurement.label, one.measurement.kernel) for each in products for one in each.shares)
    styles = {label: KERNEL_STYLES.get(label) or style_of(look) for label, look in by_label.items()}
    several = len({each.library.dtype for each in products}) > 1
    groups = [
        ShareGroup(_title(each, several), [_bar(one, each, styles[one.measurement.label]) for one in each.shares])
        for each in products
    ]
    return draw(groups, "Speed, % of the library's", level=100.0)


def _title(product: SharedProduct, several_types: bool) -> str:
    library = product.library
    size = f"N = {product.size}" if library.is_square and library.batch == 1 else product.size
    kind = f"{size}, {library.dtype}" if several_types else size
    return f"{kind}: % of {product.line.name}" if product.line.is_padded else kind


def _bar(share: Share, product: SharedProduct, style: Style) -> ShareBar:
    one, ends = share.measurement, share.interval
    between = f" ({percent(ends.lo)} to {percent(ends.hi)})" if ends else ""
    doubt = "" if one.condition.is_clean else f", {one.condition.kind}"
    speed = in_words(one.gflops or 0.0)
    return ShareBar(
        name=one.label,
        style=style,
        value=100 * share.value,
        lo=100 * ends.lo if ends else None,
        hi=100 * ends.hi if ends else None,
        words=f"{percent(share.value)}, {speed}{doubt}",
        tip=f"{one.label}, {one.dtype}, {product.size}: {speed}, {percent(share.value)} of "
        f"{product.line.name}{between}{doubt}",
        is_clean=one.condition.is_clean,
    )
