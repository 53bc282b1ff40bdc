"""The page and the picture of an optimization, from its events."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import jinja2
from matplotlib.figure import Figure

from evoprompt.checkpoint import write_whole
from evoprompt.frozen.result import OptimizationResult
from evoprompt.report import pictures
from evoprompt.report.history import read_histories
from evoprompt.report.style import arm_styles, style
from evoprompt.types import legible

_ARM = "optimize"


def write_pictures(result: OptimizationResult, root: Path) -> list[Path]:
    """Writes ``report.html`` and ``report.png`` and returns their paths."""
    (history,) = read_histories({**event, "arm": _ARM, "seed": 0} for event in result.log)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("evoprompt.frozen", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page, picture = root / "report.html", root / "report.png"
    with style():
        curve = pictures.headline([history], arm_styles([_ARM]))
        curve.savefig(picture, dpi=130)
        text = environment.get_template("page.html.j2").render(
            result=result,
            history=history,
            best=legible(result.best.components),
            curve=_embedded(curve),
            lineage=_embedded(pictures.lineage(history)),
        )
    write_whole(page, text)
    return [page, picture]


def _embedded(figure: Figure) -> str:
    """A picture as a data address, so that the page needs no other file."""
    picture = io.BytesIO()
    figure.savefig(picture, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(picture.getvalue()).decode("ascii")
