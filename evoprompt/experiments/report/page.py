"""Page of a run: one self-contained HTML file, without requests to other machines."""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache

import jinja2
import vl_convert
from markupsafe import Markup

from evoprompt.experiments.best import rank
from evoprompt.experiments.report.document import document
from evoprompt.experiments.report.progress import duration, progress
from evoprompt.experiments.report.source import ReportedTrial, Source
from evoprompt.experiments.report.verdict import Measure, rankings
from evoprompt.support.text import english, many, printable, sentences

_SCRIPTS = ("table.js", "say.js", "dialog.js", "charts.js", "page.js")


def render_page(source: Source, version: str = "", last_change: float = 0.0) -> str:
    """Return the page as HTML.

    Args:
        source: the contents.
        version: of a page that is served and polls its server; empty for a file, which sends no
            requests.
        last_change: time of the last change of the run's files, in seconds since 1970.
    """
    best, main_metric = _best_trial(source), source.summary.main_metric
    data = document(source)
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return (
        _templates()
        .get_template("page.html.j2")
        .render(
            source=source,
            summary=source.summary,
            label=data["label"],
            rankings=rankings(source),
            measure=None if main_metric is None else Measure.of(source, main_metric),
            progress=progress(source),
            facts=_facts(source),
            best=best,
            path=[] if best is None else best.history.path(),
            english=english,
            sentences=sentences,
            data=base64.b64encode(gzip.compress(text.encode("ascii"), mtime=0)).decode("ascii"),
            version=version,
            written=last_change,
            vega=drawing(),
            licence=_licence(),
            style=_part("page.css"),
            script=Markup("\n").join(map(_part, _SCRIPTS)),
        )
    )


@cache
def drawing() -> Markup:
    """Return Vega, Vega-Lite and Vega-Embed from vl-convert; the first call takes seconds."""
    code = vl_convert.javascript_bundle("window.vegaEmbed=vegaEmbed;window.vega=vega;")
    return Markup(code.replace("</script", "<\\/script").replace("<!--", "<\\!--"))


def _facts(source: Source) -> list[str]:
    """Return the facts of a run: start, duration, version and machine."""
    facts, provenance = [], source.about
    if provenance is not None:
        facts.append(f"Begun {provenance.begun:%d %B %Y, %H:%M} UTC")
    if seeds := source.summary.seeds:
        training_time = duration(sum(seed.train_seconds for seed in seeds))
        rollouts = sum(seed.rollouts for seed in seeds)
        facts.append(
            f"{training_time} of training and {rollouts:,} rollouts in {many(len(seeds), 'trial')}"
        )
    if provenance is not None:
        commit = f", commit {provenance.commit}" if provenance.commit else ""
        facts += [f"evoprompt {provenance.version}{commit}", provenance.machine]
    return facts


def _best_trial(source: Source) -> ReportedTrial | None:
    """Return the trial with the best validation, which is that of ``evoprompt best``."""
    return max(
        (trial for trial in source.trials if trial.history.candidates),
        key=lambda trial: rank(trial.merit, source.arms.index(trial.arm), trial.seed),
        default=None,
    )


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("evoprompt.experiments.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else printable(str(value)),
    )


def _part(name: str) -> Markup:
    loader = jinja2.PackageLoader("evoprompt.experiments.report", ".")
    return Markup(loader.get_source(_templates(), name)[0])


def _licence() -> str:
    return (
        f"Vega {vl_convert.get_vega_version()}, Vega-Lite {vl_convert.get_vegalite_versions()[-1]} "
        f"and Vega-Embed {vl_convert.get_vega_embed_version()}"
    )
