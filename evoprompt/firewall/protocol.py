"""Rules about what the host relies on: tags, placeholders and the length of the prompt."""

from __future__ import annotations

import re
from functools import lru_cache

from evoprompt.firewall.core import FirewallContext
from evoprompt.firewall.text import any_of, tags, without_quotes
from evoprompt.types import Proposal

_LATEX = any_of(
    r"\\[A-Za-z]+\*?(?:\{[^{}]*\})+|[_^]\{[^{}]{0,40}\}|\$(?![\s{])[^$\n]{1,80}(?<!\s)\$(?!\w)"
)
_WORDS = r"[^\W\d_][^\W\d_'-]{0,30}(?: [^\W\d_][^\W\d_'-]{0,30}){1,8}"
_PLACEHOLDER = any_of(
    r"\{\{\s*[A-Za-z_][\w.]*\s*\}\}"  # {{question}}
    r"|\{[A-Za-z_][\w.]*\}|\{\}"  # {question}
    r"|\$\{[A-Za-z_]\w*\}|(?<![\w$])\$[A-Za-z_]\w+(?![\w$])"  # ${question}, $question
    r"|%\([A-Za-z_]\w*\)[sdf]|(?<![\w%])%[sd](?!\w)"  # %(question)s, %s
    r"|<<\s*[A-Za-z_][\w ]*>>"  # <<question>>
    r"|(?<!\w)\[(?:insert|your|add|fill|enter|placeholder|the|user'?s?|current)\b[^\]\n]{0,60}\]"
    r"|\[(?-i:[A-Z][A-Z_ ]{2,40})\](?!\()"  # [QUESTION]
    r"|<(?:your|insert|the)[ _][^<>\n]{1,60}>"  # <your answer here>
    rf"|(?<![^\s(,:;.。，：是])\[{_WORDS}\](?!\()"  # [target group]
    rf"|<{_WORDS}>"  # <company name>
    r"|[\[【][^\[\]】\n]{0,20}(?:填写|插入|输入|入力|삽입|вставьте)[^\[\]】\n]{0,20}[\]】]"
    r"|(?-i:(?:^|[.!?:] |[\[(])(?:TODO|TBD|FIXME)\b|\b(?:TODO|TBD|FIXME):)"  # left to be filled in
    r"|\[(?-i:(?:Your |Company )?(?:Name|Date|Topic|Company|City|Country|Role|Language|Title|"
    r"Product|Year"
    r"|Person|Place|Subject|Audience|Tone|Style))\]"  # [Name]
    r"|<(?-i:[A-Z][A-Z_]{2,40})>(?![^<>]{0,80}</)|\(fill in [^)\n]{1,40}\)|\blorem ipsum\b"
    r"|\[\s?(?:\.\.\.|…)[^\[\]\n]{1,60}\]"
    r"|_{3,}|\bX{3,}\b",
)
_SPOKEN = any_of(
    r"\b(?:never|not|such as|e\.g\.|placeholders?|slots?|marks?|gaps?|variables?|platzhalter|"
    r"write|answer|say"
    r"|reply|respond|output|return|print|schreibe?|antworte|écris|réponds|escribe|responde|пиши|"
    r"ответь)(?!\w)"
    r"(?: (?:with|like|such as|use|leave|mit|wie|par|con|the (?:token|word|text)|only|just)){0,3}"
    r"(?:(?:,? (?:or|and|oder|und|ou|et|o|y))?,? "
    r"(?:\[[^\[\]\n]{1,60}\]|\{\{?[^{}\n]{0,60}\}?\}|<[^<>\n]{1,60}>|%[sd]|_{3,})){1,9}",
)
_ITEM = re.compile(
    r"^[^\w\n]*(?:\d{1,2}[.):](?=\s)|(?:or|alternatively|oder|alternativ|ou|o|или|或者?|または)[^\w\n]*$"
    r"|(?:alternativ(?:ely)?|(?:an)?other \w+|(?:second|zweite|otra|autre) \w+)\s*[:：]"
    r"|(?:variant\w*|versi\w+|option|opción|fassung|方案|版本|バージョン)\s?[\da-e一二三]\s*[:：])",
    re.IGNORECASE | re.MULTILINE,
)
_LISTS = (  # items of lists that begin with the text, and texts between lines
    re.compile(r"^[ \t]*[-*•]\s", re.MULTILINE),
    re.compile(r"^[ \t]*\(?[a-eA-E1-9][.)]\s", re.MULTILINE),
)
_VERSION = any_of(
    r"^[#*\t ]*(?:(?:version|variante?|fassung|candidate|alternative|draft) ?(?:[a-e]|\d)\b"
    r"|(?:方案|版本|バージョン)[一二三\d]|\w{1,20} version\b)(?=[^.\n]{0,40}(?:[:：]|\n))",
)
_OR = re.compile(
    r"\n[ \t]*\n[ \t*_-]{0,6}(?:or|oder|ou|或者?|または)[ \t*_:-]{0,6}\n[ \t]*\n", re.IGNORECASE
)
_LINE = re.compile(r"^[ \t]*(?:[-=*_~]{3,})[ \t]*$", re.MULTILINE)
_EXAMPLE = re.compile(
    r"\W*(?:<|examples?\b|sample|question\b|q:|for (?:example|instance))", re.IGNORECASE
)


def placeholders(text: str) -> set[str]:
    """Every slot of a template that a host or a person is expected to fill in."""
    return set(_placeholders(text))


@lru_cache(maxsize=128)
def _placeholders(text: str) -> frozenset[str]:
    found = (slot.group() for slot in _PLACEHOLDER.finditer(_LATEX.sub(" ", text)))
    return frozenset(re.sub(r"\s+", " ", slot.strip().lower()) for slot in found)


def several(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds several candidates in one text: named versions, or items that hold all required."""
    text = proposal.text
    named = {" ".join(found.group().split()).casefold() for found in _VERSION.finditer(text)}
    if len(named) > 1 and not any(map(_VERSION.search, context.parents)):
        return f"the text holds {len(named)} candidates"
    between = [part.strip() for part in _OR.split(text)]
    if len(between) > 1 and all(part[-1:] in set(".!?。") for part in between):
        return f"the text holds {len(between)} candidates"
    if not context.required:
        return None
    splits = [_parts(_ITEM, text), *(_parts(item, text) for item in _LISTS if item.match(text))]
    between = _parts(_LINE, text)
    sizes = [len(part) for part in between]
    if max(sizes, default=0) <= 2 * min(sizes, default=0) and not any(map(_EXAMPLE.match, between)):
        splits.append(between)
    for parts in splits:
        if len(parts) > 1 and all(tag in part for part in parts for tag in context.required):
            return f"the text holds {len(parts)} candidates"
    return None


def _parts(separator: re.Pattern[str], text: str) -> list[str]:
    return [part for part in separator.split(text) if part.strip()]


def lost_tag(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds required substrings that are gone; without any given, tags that all parents have."""
    text = proposal.text
    required = list(context.required)
    if not required and context.parents:
        shared = set.intersection(*(set(tags(parent)) for parent in context.parents))
        required = [f"<{'/' if closes else ''}{name}>" for name, closes in sorted(shared)]
    lost = [tag for tag in required if tag not in text]
    return f"required, but not in the text: {', '.join(lost)}" if lost else None


def lost_placeholder(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds placeholders that every parent has and the proposal has not."""
    if not context.parents:
        return None
    shared = set.intersection(*(placeholders(parent) for parent in context.parents))
    lost = sorted(shared - placeholders(proposal.text))
    return f"lost placeholder: {', '.join(lost)}" if lost else None


def new_placeholder(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds placeholders that no parent has: nobody would fill them in.

    What is quoted, in code, or called a placeholder is only spoken of; what is to be written in
    brackets is a literal.
    """
    known = set().union(*(placeholders(parent) for parent in context.parents))
    known |= set().union(*(placeholders(required) for required in context.required))
    text = without_quotes(proposal.text)
    known |= placeholders(" ".join(found.group() for found in _SPOKEN.finditer(text)))
    new = sorted(placeholders(text) - known)
    return f"new placeholder: {', '.join(new)}" if new else None


def too_long(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds instructions with more tokens than an instruction may have."""
    tokens = context.count_tokens(proposal.text)
    if tokens <= context.max_tokens:
        return None
    return f"the instruction has {tokens} tokens, more than the {context.max_tokens} allowed"


def over_prompt_budget(proposal: Proposal, context: FirewallContext) -> str | None:
    """Finds instructions that leave no room for the longest question known.

    Hosts cut prompts that are too long from the left, where the instruction stands.
    """
    if context.max_prompt_tokens is None:
        return None
    longest = max((context.count_tokens(question) for question in context.questions), default=0)
    tokens = context.count_tokens(proposal.text) + longest
    if tokens <= context.max_prompt_tokens:
        return None
    return (
        f"instruction and longest question have {tokens} tokens, "
        f"more than the {context.max_prompt_tokens} of a prompt"
    )
