"""Changes of a text, and the HTML of a result for notebooks: changes, summary and curve."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from evoprompt.types import INSTRUCTION

_WORD = re.compile(r"\s+|\S+")
_WIDTH, _HEIGHT, _MARGIN = 420, 120, 6  # pixels of the curve
_TEXT_STYLE = "white-space:pre-wrap;max-width:60em;margin:.4em 0"
_STYLES = {"ins": "background:#b7e8c0;color:#0b3d17", "del": "background:#f5c2c2;color:#5c1010"}


def result_html(
    seed: Mapping[str, str],
    best: Mapping[str, str],
    facts: Sequence[str],
    curve: Sequence[tuple[int, float]],
) -> str:
    """Return the HTML of a result.

    Args:
        seed: texts of the first seed, by component.
        best: texts of the incumbent, in which the changes are marked.
        facts: sentences about the result.
        curve: pairs of rollouts and value of the incumbent, oldest first.
    """
    parts = ["<div>"]
    for name, text in best.items():
        heading = "" if name == INSTRUCTION else f"<b>{escape(name)}</b>"
        parts.append(f'{heading}<div style="{_TEXT_STYLE}">{diff_html(seed[name], text)}</div>')
    items = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
    return "".join([*parts, f"<ul>{items}</ul>", _curve_svg(curve), "</div>"])


def diff_html(old: str, new: str) -> str:
    """Return ``new`` as HTML, in which words that ``old`` has not are marked, and lost words, too.

    >>> diff_html("Be brief.", "Be very brief.").count("<ins")
    1
    """
    return "".join(
        escape(text) if tag == "" else _marked(tag, text) for tag, text in _changes_of(old, new)
    )


def diff_text(old: str, new: str) -> str:
    """Return ``new`` as plain text, with marks around added and lost words.

    >>> diff_text("Be brief.", "Be very brief.")
    'Be {+very +}brief.'
    """
    marks = {"": ("", ""), "ins": ("{+", "+}"), "del": ("[-", "-]")}
    return "".join(text.join(marks[tag]) for tag, text in _changes_of(old, new) if text)


def _changes_of(old: str, new: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of both texts, each with its tag: ``del``, ``ins``, or none for equal."""
    old_words, new_words = _WORD.findall(old), _WORD.findall(new)
    matcher = difflib.SequenceMatcher(None, old_words, new_words, autojunk=False)
    for kind, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        added = "".join(new_words[new_start:new_end])
        if kind == "equal":
            yield "", added
            continue
        yield "del", "".join(old_words[old_start:old_end])
        yield "ins", added


def _marked(tag: str, text: str) -> str:
    return f'<{tag} style="{_STYLES[tag]}">{escape(text)}</{tag}>' if text else ""


def _curve_svg(curve: Sequence[tuple[int, float]]) -> str:
    """Return the value of the incumbent over rollouts as steps; empty for a curve of one point."""
    if len(curve) < 2:
        return ""
    values = [value for _, value in curve]
    end = curve[-1][0]
    low, high = min(values), max(values)
    width, height = _WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN

    def place(rollouts: int, value: float) -> str:
        share = (value - low) / (high - low) if high > low else 0.5
        x = _MARGIN + width * rollouts / max(end, 1)
        return f"{x:.1f},{_MARGIN + height * (1 - share):.1f}"

    corners = [place(*curve[0])]
    for (_, earlier_value), (rollouts, value) in itertools.pairwise(curve):
        corners += [place(rollouts, earlier_value), place(rollouts, value)]
    label = f"value {low:.3f} to {high:.3f} over {end:,} rollouts"
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{label}">'
        f'<polyline points="{" ".join(corners)}" fill="none" stroke="#2563eb" stroke-width="2"/>'
        f"</svg><div>{label}</div>"
    )
