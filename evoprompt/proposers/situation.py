"""What a language model is told besides the instruction and its failures, in words."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import JsonValue

from evoprompt.proposers.episodes import clip
from evoprompt.roles import ProposalRequest
from evoprompt.types import TOOL, Candidate, CandidateStats, estimate_tokens

_NONE = "(none)"
_EARLIER = 6  # texts that are no longer in use and are told of, the latest ones
_SENTENCES = 12  # the clearest ones
_TEXT = 400  # characters of each text that is told of
_PROMPT, _TOOLS, _REWARD = 1_600, 2_400, 1_200  # characters
_TOKENS_A_WORD = 1.4


def setting_of(request: ProposalRequest, candidate: Candidate, component: str) -> str:
    """What stands around the text that is to be rewritten.

    Args:
        request: whose setting.
        candidate: whose other components.
        component: the one that is rewritten.
    """
    setting = request.setting
    parts: list[str] = []
    if what := setting.components.get(component, ""):
        parts.append(f"What is rewritten: {what}")
    if setting.prompt:
        parts.append(f"A prompt, with its place marked:\n{clip(setting.prompt, _PROMPT)}")
    if setting.tools:
        shown = "\n".join(map(_schema, setting.tools))
        parts.append(f"The tools that can be called:\n{clip(shown, _TOOLS)}")
    if setting.reward:
        parts.append(f"What the score rewards:\n{clip(setting.reward, _REWARD)}")
    others = {name: text for name, text in candidate.components.items() if name != component}
    if others:
        told = "\n".join(
            f"- {setting.components.get(name) or _called(name)}: {clip(text, _TEXT)}"
            for name, text in others.items()
        )
        parts.append(f"Other texts that it works with, and that stay as they are:\n{told}")
    return "\n\n".join(parts) or "(nothing is known of it)"


def tried_of(request: ProposalRequest, candidate: Candidate, component: str) -> str:
    """What was earned under the text, the others in use and the latest of those that were.

    Args:
        request: who is alive, and who was.
        candidate: whom it is told beside.
        component: the one that is rewritten.
    """
    living = {one.candidate.id: one for one in request.living}
    earlier = [one for one in request.history if one.candidate.id not in living and one.groups]
    known = [("in use", one) for one in sorted(living.values(), key=_by_weight)]
    known += [("given up", one) for one in earlier[-_EARLIER:]]
    seen = {candidate.components.get(component)}
    own = [one for one in request.parents if one.candidate.id == candidate.id and one.groups]
    lines = [f"- the instruction above, {_earned(one)}" for one in own]
    for state, one in known:
        text = one.candidate.components.get(component)
        if text is not None and text not in seen:
            seen.add(text)
            lines.append(f"- {state}, {_earned(one)}: {clip(text, _TEXT)}")
    if request.sentences and lines:
        lines.append("What single sentences add to the score, wherever they stand:")
        for worth in request.sentences[:_SENTENCES]:
            said = f"worth {worth}" if worth.verdict != "not shown" else f"nothing shown, {worth}"
            lines.append(f"- {clip(worth.text, _TEXT)}: {said}")
    return "\n".join(lines) or _NONE


def refused_of(request: ProposalRequest) -> str:
    """Why texts that were proposed the last time could not be tried."""
    return "\n".join(f"- {clip(one, _TEXT)}" for one in dict.fromkeys(request.refusals)) or _NONE


def length_of(
    request: ProposalRequest, candidate: Candidate, component: str, max_words: int | None
) -> str:
    """How long a text may be."""
    room = request.max_tokens
    if room is not None:
        others = [text for name, text in candidate.components.items() if name != component]
        room = max(room - round(sum(map(estimate_tokens, others)) * _TOKENS_A_WORD), 1)
    limits = [] if max_words is None else [f"at most {max_words} words"]
    if room is not None and (max_words is None or room < max_words * _TOKENS_A_WORD):
        words = max(round(room / _TOKENS_A_WORD), 1)
        limits.append(f"at most {room} tokens, about {words} words")
    return f"{' and '.join(limits)}{'; ' if limits else ''}no longer than its content needs"


def _schema(schema: Mapping[str, JsonValue]) -> str:
    function = schema.get("function", schema)
    return json.dumps(function, ensure_ascii=False)


def _called(name: str) -> str:
    if name.startswith(TOOL):
        return f"the description of the tool `{name.removeprefix(TOOL)}`"
    return f"`{name}`"


def _by_weight(stats: CandidateStats) -> tuple[bool, float]:
    return not stats.groups, -stats.weight


def _earned(stats: CandidateStats) -> str:
    if not stats.groups:
        return "not measured yet"
    return f"score {stats.weight:.2f}, measured {stats.groups} times"
