"""Rules about tags and fences: those that are used must be whole, those mentioned need not be."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from evoprompt.firewall.core import FirewallContext
from evoprompt.firewall.examples import broken_examples
from evoprompt.firewall.text import plain, tags, word_set
from evoprompt.types import Proposal

_FENCED = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)|```\w*$", re.MULTILINE)
_SPOKEN = re.compile(r"</?[^\W\d_][\w-]*>(?=[\s\"']*(?:tag|block|element|marker))")
_CUT = re.compile(r"</?[^\W\d_][\w-]*(?=[^\S\n]*(?:<|\n|$))|</?$")
_TWICE = re.compile(r"<([^\W\d_][\w-]*)>\W{0,3}(?:\w{1,5}\W{1,3})?<\1>")
_TAG = re.compile(r"<(/?)([^\W\d_][\w-]*)>")
_ENCLOSES = re.compile(r"[^\W\u3040-\u30ff\uac00-\ud7a3]|<[^\W\d_]")  # no particles
_ENCLOSED = re.compile(r"(?:[\w.!?]|</[\w-]{1,60}>)\Z")
_HTML = word_set(
    "a b i u s em p q li ol ul tt br hr code pre strong mark sub sup small span div kbd"
)
_CLOSE = "›〉＞"
_NAME = r"([^\W\d_][\w-]{0,60})"
_TAG_LIKE = re.compile(
    rf"[<‹〈＜](?:[ \t]{{0,3}}\\?/?[ \t]{{0,3}}{_NAME}[^<‹〈＜>{_CLOSE}\n]{{0,80}}[>{_CLOSE}]"
    rf"|\\?/?{_NAME})"
)
_ESCAPED = re.compile(r"&lt;(/?[^\W\d_][\w-]{0,60})&gt;")


@dataclass(frozen=True, slots=True)
class _Tag:
    """A tag in a text; ``glued`` when it touches a word of what it encloses."""

    name: str
    closes: bool
    glued: bool


def unbalanced(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds tags without their counterpart, tags in use that are not closed, and open fences.

    A tag is *used* when it touches what it encloses (``<b>word``), or in an example; other tags
    are mentioned, as in "write nothing after </answer>" or "wait for <output>", and need none.
    What is in backticks or called a tag is only spoken of. A parent that does the same excuses it.
    """
    text = proposal.text
    if len(_FENCE.findall(text)) % 2 and (text.count("```") % 2 or text.count("~~~") % 2):
        return "a code fence is opened but not closed"
    if re.sub(r"```.*?```|```+", "", text, flags=re.DOTALL).count("`") % 2:
        return "a backtick is opened but not closed"
    cut = _CUT.search(_FENCED.sub(" ", text))
    if cut is not None:
        return f"the tag {cut.group()!r} is cut off"
    others = (text, *context.parents, *context.required)
    known = {name for other in others for name, closes in tags(other) if closes}
    excused = {fault for parent in context.parents for fault in _faults(parent, known)}
    return next((fault for fault in _faults(text, known) if fault not in excused), None)


def altered_tag(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds tags of the protocol in another spelling: attributes, spaces, capitals, look-alikes.

    The host reads tags letter by letter: ``<Answer>`` or ``<answer type="short">`` is text to it,
    and so are the elements of another protocol, which are found where they stand alone.
    """
    known = {name for text in (*context.parents, *context.required) for name, _ in tags(text)}
    elements = {name for name, closes in tags(proposal.text) if closes} - _HTML
    if known and elements and not known.intersection(name for name, _ in tags(proposal.text)):
        return f"none of the tags {', '.join(sorted(elements))} is one that the host reads"
    exact = {name.casefold() for name in known}
    usual = {found.group() for text in context.parents for found in _TAG_LIKE.finditer(text)}
    for found in _TAG_LIKE.finditer(proposal.text):
        name = found.group(1) or found.group(2)
        if name in known and found.group() in (f"<{name}>", f"</{name}>"):
            continue
        if _skeleton(name) in exact and found.group() not in usual:
            return f"{found.group()!r} is not the tag <{_skeleton(name)}> that the host reads"
    escaped = _ESCAPED.search(proposal.text)
    if escaped and escaped.group(1).lstrip("/") in known:
        return f"{escaped.group()!r} is not the tag <{escaped.group(1)}> that the host reads"
    return None


def _faults(text: str, known: Collection[str]) -> Iterator[str]:
    yield from broken_examples(text, known)
    spoken = [*_tags(_SPOKEN.sub(" ", _FENCED.sub(" ", text)))]
    everywhere = set(tags(text))
    for name, closes in dict.fromkeys((tag.name, tag.closes) for tag in spoken if tag.glued):
        if (name, not closes) not in everywhere:
            done, never = ("closed", "opened") if closes else ("opened", "closed")
            yield f"the tag {name!r} is {done} but never {never}"
    twice = _TWICE.search(text)
    if twice and (twice.group(1), True) not in everywhere:
        yield f"the tag {twice.group(1)!r} is opened twice but never closed"
    opened: list[_Tag] = []  # since the outermost tag in use
    for tag in spoken:
        inside = next((one for one in opened if one.glued), None)
        if not tag.closes:
            if inside is not None and tag.name == opened[-1].name:
                yield f"the tag {tag.name!r} is opened again before it is closed"
                opened.clear()
            if inside is not None or tag.glued:
                opened.append(tag)
        elif opened and opened[-1].name == tag.name:
            opened.pop()
        elif opened:
            yield f"the tag {tag.name!r} closes across {opened[-1].name!r}"
            opened.clear()
    if opened:
        yield f"the tag {opened[0].name!r} is opened but not closed"


def _tags(text: str) -> Iterator[_Tag]:
    for found in _TAG.finditer(text):
        slash, name = found.groups()
        if slash:
            glued = _ENCLOSED.search(text[max(found.start() - 64, 0) : found.start()])
        else:
            glued = _ENCLOSES.match(text, found.end())
        yield _Tag(name, slash == "/", glued is not None)


def _skeleton(name: str) -> str:
    """The name as it looks: in lower case, with Cyrillic and Greek twins made Latin."""
    return plain(name).translate(_LATIN).casefold()


_LATIN = str.maketrans(
    "асеорхуѕіјԁһкмтвнАВСЕНІЈКМОРЅТХУοναρυ", "aceopxysijdhkmtbhABCEHIJKMOPSTXYovapu"
)
