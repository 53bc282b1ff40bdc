"""The page of a run: one HTML file with everything in it, which asks no other machine."""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache

import jinja2
import vl_convert
from markupsafe import Markup

from evoprompt.experiments.report.document import Json, document
from evoprompt.experiments.report.source import Source
from evoprompt.experiments.report.verdict import best_trial, comparisons
from evoprompt.experiments.report.wording import change
from evoprompt.text import printable, sentences

_PARTS = ("page.css", "table.js", "charts.js", "say.js", "dialog.js", "page.js")


def render_page(source: Source, version: str = "", written: float = 0.0) -> str:
    """The page as HTML.

    Args:
        source: what is told.
        version: of a page that is served and asks its server for news; empty for a file, which
            asks nobody.
        written: when something was last written to the runs, in seconds since 1970.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("evoprompt.experiments.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else printable(str(value)),
    )
    found = document(source)
    runs = source.runs or (source,)
    best = [one for run in runs if (one := best_trial(run.trials)) is not None]
    tested = [run for run in runs if run.summary.arms]
    return environment.get_template("page.html.j2").render(
        source=source,
        summary=source.summary,
        label="value" if len(tested) > 1 else found["label"],
        comparisons=comparisons(source),
        best=[(one, path[0], path[-1]) for one in best if (path := one.history.path())],
        change=change,
        finished=len(source.summary.seeds),
        begun=sum(len(run.trials) for run in tested),
        sentences=sentences,
        data=packed(found),
        version=version,
        written=written,
        vega=drawing(),
        licence=_licence(),
        **{part.replace(".", "_"): _part(part) for part in _PARTS},
    )


def packed(found: Json) -> str:
    """A document, compressed, in letters that no page takes for markup."""
    plain = json.dumps(found, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(plain.encode("ascii"), mtime=0)).decode("ascii")


@cache
def drawing() -> Markup:
    """Vega, Vega-Lite and Vega-Embed, as vl-convert brings them; the first call takes seconds."""
    code = vl_convert.javascript_bundle("window.vegaEmbed=vegaEmbed;window.vega=vega;")
    return Markup(code.replace("</script", "<\\/script").replace("<!--", "<\\!--"))


def _licence() -> str:
    return (
        f"Vega {vl_convert.get_vega_version()}, Vega-Lite {vl_convert.get_vegalite_versions()[-1]} "
        f"and Vega-Embed {vl_convert.get_vega_embed_version()}"
    )


@cache
def _part(name: str) -> Markup:
    loader = jinja2.PackageLoader("evoprompt.experiments.report", ".")
    return Markup(loader.get_source(jinja2.Environment(), name)[0])
