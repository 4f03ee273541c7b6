"""A report to hand in: as HTML with plots inside, as PDF, or as Markdown with or without pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analysis.plots.by_name import PLOTS
from analysis.report import causes, findings, method, speeds, tables
from analysis.report.appendix import appendix, reproduction
from analysis.report.conclusion import conclusion
from analysis.report.document import Block, Contents, Figure, Heading, Text, plot
from analysis.report.figures import BESIDE, WHO_WINS, draw, drawable
from analysis.report.forms.bundle import picture, to_zip
from analysis.report.forms.html import to_html
from analysis.report.forms.markdown import to_markdown
from analysis.report.forms.pdf import to_pdf
from analysis.report.numbering import numbered
from analysis.report.options import ReportOptions, SectionName, paragraphs
from analysis.report.subject import Subject
from analysis.report.summary import cover, summary, title, unfinished
from jobs.errors import ExtraMissing

AS_IT_IS = ReportOptions()
SERVED_INSTEAD = {WHO_WINS: "fraction-of-baseline", BESIDE: "gflops"}


def html_report(subject: Subject, options: ReportOptions = AS_IT_IS) -> str:
    """One file without scripts or external resources. Without matplotlib it has no plots, and says so."""
    return _html(subject, options)


def pdf_report(subject: Subject, options: ReportOptions = AS_IT_IS) -> bytes:
    """The report on A4 pages. Raises ExtraMissing."""
    return to_pdf(_html(subject, options, is_paper=True))


def markdown_report(subject: Subject, options: ReportOptions = AS_IT_IS, *, plots_at: str | None = None) -> str:
    """Plots are links below `plots_at`, a path of the service; if that is None there are no plots."""
    names = [name for name in drawable(subject.measurements) if name in PLOTS] if plots_at else []
    blocks = (_served(block) if isinstance(block, Figure) else block for block in _blocks(subject, options))
    return to_markdown(numbered(blocks, names), lambda name: f"{plots_at}/{name}")


def _served(figure: Figure) -> Figure:
    """The address of the plot that comes nearest to a report's own plot, which has no address."""
    return plot(SERVED_INSTEAD[figure.name]) if figure.name in SERVED_INSTEAD else figure


def zip_report(subject: Subject, options: ReportOptions = AS_IT_IS) -> bytes:
    """Markdown with its pictures."""
    blocks, plots = _with_plots(subject, options)
    return to_zip(to_markdown(blocks, picture), plots)


def _html(subject: Subject, options: ReportOptions, *, is_paper: bool = False) -> str:
    blocks, plots = _with_plots(subject, options)
    author = options.author or ", ".join(subject.authors)
    return to_html(title(subject, options), author, blocks, plots, is_paper=is_paper)


def _with_plots(subject: Subject, options: ReportOptions) -> tuple[list[Block], Mapping[str, bytes]]:
    blocks, plots = list(_blocks(subject, options)), {}
    wanted = [block.name for block in blocks if isinstance(block, Figure)]
    try:
        names = [name for name in drawable(subject.measurements) if name in wanted]
        plots = {name: draw(subject.measurements, name, "svg") for name in names}
    except ExtraMissing as missing:
        blocks.append(Text(f"This report has no plots. {missing.detail}"))
    return numbered(blocks, plots), plots


def _blocks(subject: Subject, options: ReportOptions) -> Iterator[Block]:
    yield cover(subject, options)
    yield from unfinished(subject)
    sections = _sections(subject, options)
    first, *others = ([*sections[name]] for name in options.sections)
    yield from first
    rest = [block for section in others for block in section]
    yield Contents(tuple(block.text for block in rest if isinstance(block, Heading) and block.level == 2))
    yield from rest


def _sections(subject: Subject, options: ReportOptions) -> Mapping[SectionName, Iterator[Block]]:
    """The sections, in the order of `SECTIONS`; each is made when it is read."""
    pairs = subject.pairs
    return {
        "summary": summary(subject),
        "introduction": _introduction(options),
        "method": method.method(subject),
        "results": speeds.speeds(pairs),
        "roofline": findings.roofs(subject),
        "copies": findings.copies(pairs),
        "configs": tables.tile_configs(pairs),
        "findings": causes.dips(pairs),
        "correctness": _correctness(subject),
        "conclusion": conclusion(subject, options),
        "limitations": findings.limitations(subject),
        "reproduction": reproduction(subject),
        "appendix": appendix(subject),
    }


def _introduction(options: ReportOptions) -> Iterator[Block]:
    own = paragraphs(options.text)
    if own:
        yield Heading(2, "Introduction")
        yield from (Text(text, is_own=True) for text in own)


def _correctness(subject: Subject) -> Iterator[Block]:
    yield from tables.correctness(subject.pairs)
    yield from tables.failures(subject.pairs)
