"""The page of a run: one HTML file with everything in it, readable without a network."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

import jinja2
from matplotlib.figure import Figure

from evoprompt.report import pictures
from evoprompt.report.curves import headline_of
from evoprompt.report.history import TrialHistory
from evoprompt.report.wording import change, sentences
from evoprompt.runs.directory import RunDirectory
from evoprompt.runs.summary import Summary


def render_page(
    directory: RunDirectory,
    summary: Summary,
    histories: Sequence[TrialHistory],
    styles: pictures.Styles,
    title: str,
) -> str:
    """The page as HTML; pictures are embedded."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("evoprompt.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    best = pictures.best_evolved(histories)
    evolved = sorted((h for h in histories if h.evolved), key=lambda history: history is not best)
    config_file = directory.root / "config.yaml"
    return environment.get_template("page.html.j2").render(
        title=title,
        summary=summary,
        histories=histories,
        label=headline_of(histories).label,
        headline=_embedded(pictures.headline(histories, styles, summary.target)),
        training=_embedded(pictures.training(histories, styles)),
        lineages=[(history, _embedded(pictures.lineage(history))) for history in evolved],
        change=change,
        sentences=sentences,
        config=config_file.read_text(encoding="utf-8"),
    )


def _embedded(figure: Figure) -> str:
    """A picture as a data address, so that the page needs no other file."""
    picture = io.BytesIO()
    figure.savefig(picture, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(picture.getvalue()).decode("ascii")
