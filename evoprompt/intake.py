"""The door for proposals: whatever a proposer returns becomes plain, bounded text, or is refused.

Proposers are plugins and language models; what they return may be huge, of any type, or text that
no file can hold. Nothing behind this door has to expect it.
"""

from __future__ import annotations

import re
import reprlib
import unicodedata
from collections.abc import Iterable, Mapping
from itertools import islice

from evoprompt.firewall.core import Finding
from evoprompt.text import masked, stacked
from evoprompt.types import Proposal

LONGEST = 65_536
"""Characters that the components of a proposal may have together; no rule sees a longer one."""
SHOWN = 2_000
"""Characters kept of a text that is too long, for people to read."""
RATIONALE = 16_384
"""Characters kept of a rationale."""
_PARENTS = 64
_COMPONENTS = 64

_LINE_END = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def take_in(given: Proposal) -> tuple[Proposal, Finding | None]:
    """``given`` as plain data, and why it cannot be judged, if so.

    Texts get Unix line ends and composed characters (NFC); lone surrogates become U+FFFD, which the
    firewall refuses. Credentials in a rationale are masked. What is refused here keeps the
    beginning of its texts for the log.

    Returns:
        A proposal whose parts have the types that they declare, and None; or a finding of the rule
        ``components``.
    """
    try:
        return _taken(given)
    except Exception as error:  # a foreign mapping or text may raise anything
        name = given.proposer if isinstance(given.proposer, str) else ""
        reason = f"cannot be read ({type(error).__name__}); required: texts by component"
        return Proposal({}, proposer=name), Finding("components", reason)


def _taken(given: Proposal) -> tuple[Proposal, Finding | None]:
    finding = None
    texts: dict[str, str] = {}
    components: object = given.components
    if not isinstance(components, Mapping):
        finding = Finding(
            "components", f"components are {reprlib.repr(components)}; required: a mapping"
        )
        components = {}
    room = LONGEST
    for name, text in islice(components.items(), _COMPONENTS):
        if isinstance(name, str) and isinstance(text, str) and len(name) <= SHOWN:
            room -= len(text)
            texts[_clean(name)] = _clean(text) if room >= 0 else _shortened(text)
        else:
            finding = Finding(
                "components",
                f"has the component {reprlib.repr(name)}: {reprlib.repr(text)}; required: a text "
                "for each name",
            )
    if room < 0 or len(components) > _COMPONENTS:
        finding = Finding(
            "too_long",
            f"has {LONGEST - room:,} characters in {len(components)} components; required: at most "
            f"{LONGEST:,} in {_COMPONENTS}",
        )
    parents: Iterable[object] = given.parents if isinstance(given.parents, list | tuple) else ()
    return (
        Proposal(
            texts,
            tuple(name for name in islice(parents, _PARENTS) if isinstance(name, str)),
            masked(_remark(given.rationale, RATIONALE)),
            _remark(given.proposer, SHOWN),
        ),
        finding,
    )


def _clean(text: str) -> str:
    text = _SURROGATE.sub("\ufffd", _LINE_END.sub("\n", text))
    # Composing sorts the marks on a letter in quadratic time; a stack of them is refused anyway.
    return text if stacked(text) else unicodedata.normalize("NFC", text)


def _remark(given: object, longest: int) -> str:
    """``given`` as text for people, whatever it is."""
    text = given if isinstance(given, str) else reprlib.repr(given)
    return _clean(_shortened(text, longest))


def _shortened(text: str, longest: int = SHOWN) -> str:
    if len(text) <= longest:
        return _clean(text)
    return f"{_clean(text[:longest])} [... {len(text):,} characters]"
