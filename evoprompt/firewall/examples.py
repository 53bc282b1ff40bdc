"""Tags in examples: there they are used, not spoken of, so each needs its counterpart.

A tag between words is *mentioned* ("write nothing after </answer>"); one that stands where an
example begins, and is followed by what it encloses, is *used* ("for example: <answer> Lima").
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from evoprompt.firewall.text import word_set, words

_TAG = re.compile(r"<(/?)([^\W\d_][\w-]*)>")
_SPAN = re.compile(r"```[^\n`]*\n.*?```|`[^`\n]*`", re.DOTALL)
_WINDOW = 160  # characters beside a tag that are looked at
_LONGEST = 12  # words of an example between two tags
_PROSE = word_set(
    "and or nor then but before after when whenever while until once again twice only never always",
    "first second third last next finally now not no nothing is are was be been being must should",
    "shall may can will would do does don't comes come goes go stands stand means mean marks mark",
    "opens open closes close closed opened begins begin starts start ends end stops stop finishes",
    "holds hold contains contain encloses enclose wraps wrap follows follow belongs with without "
    "for",
    "to tag tags block blocks element elements marker markers section sections pair pairs as so "
    "too",
    "also alone instead afterwards directly whatever what which that if because since use used "
    "using",
    "write put place keep say asks ask tells tell looks look sends send gives give shows show them",
    "und oder dann wenn aber vor nach mit ohne für zu ist sind steht stehen kommt beginnt endet "
    "nie",
    "nur erst zuerst danach bis schreibe muss darf soll wird werden als nicht kein keine immer "
    "sowie",
    "et ou puis mais avant après avec sans pour est sont doit ne pas jamais seulement quand "
    "ensuite",
    "y e u luego pero antes después con sin para es son debe nunca solo cuando no ni behind right "
    "just soon",
    "poi ma prima dopo senza per sono deve mai solo quando non",
    "depois mas sem são deve nunca só quando não en dan maar voor na met zonder is zijn moet nooit",
    "oraz lub potem przed po и или затем перед после ve veya sonra önce و أو ثم और या",
    "和 或 与 跟 之 间 后 前 不 要 と や の の間 に を は で 와 과",
)
_LINKS = word_set(
    "and then finally lastly next und dann et puis y luego e poi depois en 然后 再 最后"
)
_NEGATED = word_set("no not nothing never none don't nicht nichts nie kein rien jamais nada nunca")
_JOINED = re.compile(r"\s*(?:and|und|et|y|e|en|i|и|ve|和|与|と|و|और)\s*", re.IGNORECASE)
_CUE = (
    r"(?:examples?|e\.g\.|samples?|instance|demo(?:nstration)?|illustration|(?:full |good |whole "
    r")?runs?"
    r"|episode|beispiele?|z\. ?b\.|exemples?|ejemplos?|esempi[oi]?|exemplos?|voorbeeld|przykład\w*"
    r"|например|пример\w*|örnek|örneğin|例如|比如|例|たとえば|例えば|예를 들어|예시?|مثال|उदाहरण)"
)
_EXAMPLE = re.compile(
    rf"(?:\b{_CUE}(?!\w)[^.!?\n]{{0,40}}?[:：,]?|\b{_CUE}|like (?:this|so|"
    rf"that)\s*[:：,]?)\s*[\"'“„«「]?\s*\Z",
    re.IGNORECASE,
)
_SIGN = re.compile(r"(?:[:：=→“„«「『]|[-=]>|(?<!\w)[\"'])\s*\Z")
_SAID = re.compile(r"\b(?:is|are|be|as|like|with|by|write|say|reply|use|send|return)\s+\Z", re.I)
_LINE_START = re.compile(r"\s*(?:[-*•>]\s+|\d{1,2}[.)]\s+)?\Z")
_SENTENCE_START = re.compile(
    r"(?:^|[.!?])\s*(?:(?:then|next|finally|now|dann|puis)\s+)?\Z", re.IGNORECASE
)
_SENTENCE = re.compile(r"[.!?]\s|\n")
_OPEN = re.compile(r"\s*[^\s,.;:()!?=/|]")  # how an example goes on, but prose does not
_ARTICLE = re.compile(r"\s+(?:the|a|an|your|der|die|das|le|la|el|il|o)\s", re.IGNORECASE)
_NAMED = re.compile(r"\s*[\"'“]?(?:[^\W\d_a-z]|\d)")
_WHOLE = re.compile(r"\s*(?:[-*•>]\s+|\d{1,2}[.)]\s+)?<([^\W\d_][\w-]*)>[^<>\n]*</\1>\W*\Z")


@dataclass(frozen=True, slots=True)
class _Tag:
    """A tag without counterpart, and what stands beside it.

    Attributes:
        name: what it is called.
        closes: whether it is the closing form.
        near: the text before it, back to another tag or the line's start.
        first: whether no tag stands before it in its line.
        fill: the text behind it, up to another tag or the line's end.
        after: name and form of the next tag in the line.
        spare: whether it has no counterpart.
        lines: whether the lines beside it are elements, announce an example, or hold what it
            encloses.
    """

    name: str
    closes: bool
    near: str
    first: bool
    fill: str
    after: tuple[str, bool] | None
    spare: bool
    lines: bool


def broken_examples(text: str, known: Collection[str]) -> Iterator[str]:
    """What is wrong with the tags in the examples of ``text``.

    Args:
        text: an instruction.
        known: names of tags that have a closing form; others, as ``<br>``, need none.
    """
    for span in _SPAN.findall(text):
        inside = span.strip("`")
        if inside.lstrip().startswith("<") and re.search(r"\w", _TAG.sub("", inside)):
            places = [*_TAG.finditer(inside)]
            spare = (places[at] for at in _unpaired(inside, places))
            yield from (_fault(tag[2], bool(tag[1])) for tag in spare if tag[2] in known)
    text = _SPAN.sub(" ", text)
    paired = {name for name in known if 0 <= text.find(f"<{name}>") < text.rfind(f"</{name}>")}
    shown, last = 0, ("", False)
    joined: set[tuple[str, bool]] = set()
    for tag in _tags(text):
        form = (tag.name, tag.closes)
        shown = _shown(tag, shown)
        if tag.first or not _JOINED.fullmatch(tag.near):
            joined.clear()
        twice = form in joined or (form == last and not tag.first and not tag.near.strip())
        joined.add(form)
        last = form
        wrong = twice or _used(tag, shown) or _misjoined(tag, tag.name in paired)
        if wrong and tag.spare and tag.name in known:
            yield _fault(*form)


def _fault(name: str, closes: bool) -> str:
    return f"an example {'closes' if closes else 'opens'} the tag {name!r} without its counterpart"


def _unpaired(text: str, places: list[re.Match[str]]) -> list[int]:
    """Numbers of the tags that no counterpart follows or precedes around whole pairs.

    A closing tag that a later sentence speaks of closes nothing: "<b> word. After </b> stop."
    """
    spare: list[int] = []
    for at, place in enumerate(places):
        opened = places[spare[-1]] if spare else None
        if opened and place[1] and not opened[1] and opened[2] == place[2]:
            between = text[max(opened.end(), place.start() - _WINDOW) : place.start()]
            *_, last = _SENTENCE.split(between)
            spoken = words(last)
            governed = spoken and last.rstrip()[-1:].isalnum() and spoken[-1] in _PROSE
            if len(last) == len(between) or not governed:
                spare.pop()
                continue
        spare.append(at)
    return spare


def _tags(text: str) -> Iterator[_Tag]:
    """The tags of ``text`` with what stands beside them."""
    places = [*_TAG.finditer(text)]
    spare = {*_unpaired(text, places)}
    starts = [0, *(line.end() for line in re.finditer("\n", text)), len(text) + 1]
    for at, place in enumerate(places):
        start, end = place.span()
        row = bisect_right(starts, start) - 1
        before = places[at - 1] if at and places[at - 1].start() >= starts[row] else None
        after = places[at + 1] if at + 1 < len(places) else None
        after = after if after and after.start() < starts[row + 1] else None
        left = max(before.end() if before else starts[row], start - _WINDOW)
        right = min(after.start() if after else starts[row + 1] - 1, end + _WINDOW)
        near, fill = text[left:start], text[end:right]
        above = text[max(starts[row - 1], starts[row] - _WINDOW) : starts[row]] if row else ""
        below = text[starts[row + 1] : starts[row + 1] + _WINDOW].partition("\n")[0]
        lines = above.rstrip().endswith(":") or any(map(_WHOLE.match, (above, below)))
        if not (near.strip() or fill.strip() or after) and below and not below.startswith("<"):
            lines, fill = True, below
        beside = (after[2], bool(after[1])) if after else None
        yield _Tag(place[2], bool(place[1]), near, before is None, fill, beside, at in spare, lines)


def _shown(tag: _Tag, before: int) -> int:
    """How surely an example goes on to the tag: 2 when one is announced, 1 by signs, 0 not.

    Args:
        tag: the next tag.
        before: the same of the tag before it.
    """
    if _EXAMPLE.search(tag.near) or (tag.first and tag.lines and _LINE_START.match(tag.near)):
        return 2
    if not tag.first and (tag.closes or _LINKS.issuperset(words(tag.near))):
        return before
    return 1 if _SIGN.search(tag.near) else 0


def _used(tag: _Tag, shown: int) -> bool:
    """Whether the tag stands where an example does, and something that it encloses beside it."""
    if tag.after and _plain(tag.fill):  # it ends in front of another tag
        if tag.after == (tag.name, tag.closes) or (tag.closes and tag.after == (tag.name, False)):
            return True
        said = _SAID.search(tag.near) and len(words(tag.fill)) > 1
        if not tag.closes and tag.after[1] and (shown or said or _NAMED.match(tag.fill)):
            return True
    if tag.closes:
        inside = tag.near.rpartition(":")[2]
        if _ARTICLE.match(tag.fill) and _SENTENCE_START.search(tag.near):
            return True
        if ":" in tag.near and _plain(inside) and _NAMED.match(inside):
            return True
        return tag.first and tag.lines and _plain(tag.near) and not words(tag.fill)
    spoken = words(tag.fill)
    if not spoken or not _OPEN.match(tag.fill):
        return False
    if shown == 2 and spoken[0] not in _PROSE:
        return True
    whole = not re.search(r"[.!?]\s*\Z", tag.fill)
    ends = not tag.after and (whole or _NAMED.match(tag.fill) is not None)
    return bool(shown) and ends and _plain(tag.fill)


def _misjoined(tag: _Tag, paired: bool) -> bool:
    """Whether the tag is joined to one that it makes no pair with: "between </b> and <b>"."""
    if not tag.after or not _JOINED.fullmatch(tag.fill):
        return False
    if tag.closes:
        turned = tag.after == (tag.name, False) and not paired
        return turned and not _NEGATED.intersection(words(tag.near))
    return tag.after[1]


def _plain(fill: str) -> bool:
    """Whether a text is an example's, not prose about tags."""
    spoken = words(fill)
    return (
        0 < len(spoken) <= _LONGEST
        and bool(_OPEN.match(fill))
        and fill.rstrip()[-1] not in ",;:("
        and ";" not in fill
        and not _PROSE.intersection(spoken)
    )
