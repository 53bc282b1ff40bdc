"""Reflection: reads failures, says what caused them, and rewrites the instruction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from evoprompt.lm import LanguageModel
from evoprompt.log.turns import render_episode
from evoprompt.proposers.language import (
    ANALYSIS,
    CANDIDATES,
    LmProposer,
    LmTask,
    Prompt,
    diversify,
    per_parent,
)
from evoprompt.roles import ProposalRequest
from evoprompt.rules import COPIED
from evoprompt.support.errors import InputError
from evoprompt.types import Candidate, Trajectory

_READ = (
    "You are given the instruction, what stands around it, and some episodes in which the agent "
    "failed under it, with the correct answers. First find out how the instruction, or something "
    "that is missing from it, let these failures happen: what did the agent do, what should it "
    "have done, and what would it have had to know or to be used to? Then write new instructions "
)
_COPIES = (
    f"A text that has {COPIED} words in a row of a question may be refused, so make up examples "
    "of your own."
)
_FORM = (
    "Each stands alone, replaces the old one entirely, and tries another remedy than the others. "
    "Write the instructions only, without numbering, headings or remarks about them."
)
REFLECT = Prompt(
    task=(
        f"An agent is being trained to work under an instruction. {_READ}that teach such habits. "
        "The agent will meet other questions than these: rules and formats of the task that the "
        "feedback or the correct answers show belong into an instruction, but no question of the "
        f"episodes and no answer to one. {_COPIES} {_FORM}"
    ),
    inputs={
        "instruction": "the instruction the agent worked under",
        "setting": "what the agent reads around it, what it can call, and what it is scored by",
        "tried": "what was earned under it and under other instructions",
        "refused": "why instructions written the last time could not be tried",
        "episodes": "what the agent did in failed episodes, shortened",
        "solved": "how the same questions went well, if they did, shortened",
        "required": "strings that every instruction must hold letter by letter, one per line",
        "length": "of every instruction",
        "count": "number of instructions to write",
    },
    outputs={
        ANALYSIS: (str, "causes of the failures, in a few sentences"),
        CANDIDATES: (list[str], "the new instructions, exactly `count` of them"),
    },
)


REFLECT_FROZEN = replace(
    REFLECT,
    task=(
        "An agent works under an instruction. Its model stays as it is: whatever is to go better "
        f"has to be said by the instruction. {_READ}that say it. Write down every fact about the "
        "task that the feedback or the correct answers give away and that other questions will "
        "need, such as rules, formats, names and conventions; only do not copy a question of the "
        f"episodes or its answer. {_COPIES} {_FORM}"
    ),
)
"""The same for a model that is not trained."""

_BEGINNING = 80  # characters of an instruction by which a reader knows it


class Reflection(LmProposer):
    """An LLM analyses failures and rewrites the instruction (paper section 3.2).

    Source: paper §3.2 and App. E (the reflective optimizer); wording and format are our own.
    Departure: one call per parent when there are several. Without failures, at the start, it asks
    for different approaches instead, so that one call fills the population.

    Args:
        language: answers.
        episode_tokens: length to which each trajectory is shortened, in tokens; a success at the
            same question to half of it.
        program: a DSPy program for the signature of :data:`REFLECT`, compiled and saved as JSON.

    Raises:
        InputError: ``program`` cannot be loaded.
    """

    name = "reflection"

    class Settings(LmProposer.Settings):
        """What a configuration may set."""

        episode_tokens: int = Field(
            default=800, ge=50, description="length of each failed trajectory shown, in tokens"
        )
        program: Path | None = Field(
            default=None, description="compiled DSPy program to reflect with, saved as JSON"
        )

    def __init__(
        self,
        language: LanguageModel,
        episode_tokens: int = 800,
        program: Path | None = None,
    ) -> None:
        super().__init__(language)
        self.episode_tokens = episode_tokens
        self.input_tokens += 4 * episode_tokens * 3 // 2  # with successes
        self._program = None if program is None else load_program(REFLECT, program)

    def plan(self, request: ProposalRequest) -> Sequence[LmTask]:
        """One call per parent, with the failures under it."""
        if not request.failures:
            return diversify(request)

        def episodes(candidate: Candidate) -> Mapping[str, str]:
            return self._account(candidate, request)

        prompt = REFLECT if request.setting.trained else REFLECT_FROZEN
        return per_parent(request, prompt, episodes, self._program)

    def _account(self, candidate: Candidate, request: ProposalRequest) -> Mapping[str, str]:
        """The failures under ``candidate``, or all if there are none of its own, and successes."""
        own = [failure for failure in request.failures if failure.candidate.id == candidate.id]
        shown = (own or request.failures)[: request.failures_per_request]
        solved = {success.question.id: success for success in request.successes}
        beside = {
            f"Instead of episode {number}{_under(solved[one.question.id], one)}": solved.pop(
                one.question.id
            )
            for number, one in enumerate(shown, 1)
            if one.question.id in solved
        }
        failed = {f"Episode {number}": one for number, one in enumerate(shown, 1)}
        parents = {parent.candidate.id for parent in request.parents}
        others = [failure for failure in request.failures if failure.candidate.id not in parents]
        again = {
            f"Episode {number} again, failed under {_begins(other.candidate.text)}": other
            for number, one in enumerate(own and shown, 1)
            for other in others
            if other.question.id == one.question.id
        }
        told = [_told(failed, self.episode_tokens), _told(again, self.episode_tokens // 2)]
        return {
            "episodes": "\n\n".join(filter(None, told)),
            "solved": _told(beside, self.episode_tokens // 2) or "(none)",
        }


def _told(episodes: Mapping[str, Trajectory], tokens: int) -> str:
    return "\n\n".join(f"{title}\n{render_episode(one, tokens)}" for title, one in episodes.items())


def _begins(text: str) -> str:
    line = " ".join(text.split())
    return f'"{line[:_BEGINNING]} [...]"' if len(line) > _BEGINNING else f'"{line}"'


def _under(success: Trajectory, failure: Trajectory) -> str:
    return "" if success.candidate.id == failure.candidate.id else ", under another instruction"


def load_program(prompt: Prompt, path: Path) -> Any:
    """The program of ``prompt`` with what a DSPy optimizer taught it.

    Only JSON is read, because DSPy's other format runs code when it is loaded; a language model
    saved with the program is ignored.

    Raises:
        InputError: the file is not the saved state of such a program.
    """
    if path.suffix != ".json":
        raise InputError(
            f"program is {path}; required: a .json file, written by program.save('x.json')"
        )
    program = prompt.program()
    try:
        program.load(path)
    except Exception as error:
        raise InputError(
            f"program {path} cannot be loaded ({type(error).__name__}: {error}); required: the "
            "saved state of a dspy.Predict with the fields of this proposer"
        ) from error
    program.set_lm(None)
    return program
