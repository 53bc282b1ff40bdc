"""Reflection: reads failures, says what caused them, and rewrites the instruction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evoprompt.errors import InputError
from evoprompt.interfaces import ProposalRequest
from evoprompt.lm import LanguageModel
from evoprompt.proposers.diversify import diversify
from evoprompt.proposers.episodes import render_episode
from evoprompt.proposers.language import (
    ANALYSIS,
    CANDIDATES,
    Commission,
    LmProposer,
    Wording,
    per_parent,
)
from evoprompt.types import Candidate

REFLECT = Wording(
    task=(
        "An agent is being trained to work under an instruction. You are given the instruction "
        "and some episodes in which the agent failed under it, with the correct answers. First "
        "find out how the instruction, or something that is missing from it, let these failures "
        "happen: what did the agent do, what should it have done, and which habit would have "
        "made the difference? Then write new instructions that teach such habits. The agent "
        "will meet other questions than these, so the new instructions must not mention any "
        "question, answer, name or fact of the episodes. Each stands alone, replaces the old "
        "one entirely, and tries another remedy than the others. Write the instructions only, "
        "without numbering, headings or remarks about them."
    ),
    inputs={
        "instruction": "the instruction the agent worked under",
        "episodes": "what the agent did in failed episodes, shortened",
        "required": "strings that every instruction must hold letter by letter, one per line",
        "length": "of every instruction",
        "count": "number of instructions to write",
    },
    outputs={
        ANALYSIS: (str, "causes of the failures, in a few sentences"),
        CANDIDATES: (list[str], "the new instructions, exactly `count` of them"),
    },
)


class Reflection(LmProposer):
    """Analyses failed trajectories and writes instructions that would have prevented them.

    Source: paper §3.2 and App. E (the reflective optimizer); wording and format are our own.
    Departure: one call per parent when there are several. Without failures, at the start, it asks
    for different approaches instead, so that one call fills the population.

    Args:
        language: answers.
        max_words: longest instruction to ask for, in words.
        episodes: most failed trajectories to show, on different questions if there are enough.
        episode_tokens: length to which each trajectory is shortened, in tokens.
        program: a DSPy program for the signature of :data:`REFLECT`, compiled and saved as JSON.

    Raises:
        InputError: ``program`` cannot be loaded.
    """

    name = "reflection"

    def __init__(
        self,
        language: LanguageModel,
        max_words: int = 200,
        episodes: int = 4,
        episode_tokens: int = 800,
        program: Path | None = None,
    ) -> None:
        super().__init__(language, max_words)
        self.episodes = episodes
        self.episode_tokens = episode_tokens
        self._program = None if program is None else load_program(REFLECT, program)

    def plan(self, request: ProposalRequest) -> Sequence[Commission]:
        """One call per parent, with the failures under it."""
        if not request.failures:
            return diversify(request)

        def episodes(candidate: Candidate) -> Mapping[str, str]:
            return {"episodes": self._account(candidate, request)}

        return per_parent(request, REFLECT, episodes, self._program)

    def _account(self, candidate: Candidate, request: ProposalRequest) -> str:
        """The failures under ``candidate``, or all if there are none of its own."""
        own = [one for one in request.failures if one.candidate.id == candidate.id]
        failures = own or request.failures
        first: dict[str, int] = {}
        for index, one in enumerate(failures):
            first.setdefault(one.question.id, index)
        others = [index for index in range(len(failures)) if index not in first.values()]
        ordered = [failures[index] for index in (*first.values(), *others)]
        return "\n\n".join(
            f"Episode {number}\n"
            + render_episode(trajectory, request.required, self.episode_tokens)
            for number, trajectory in enumerate(ordered[: self.episodes], 1)
        )

    def calls_for(self, count: int, parents: int) -> int:
        """One a parent."""
        return min(count, parents)

    def input_tokens(self, count: int) -> int:
        """The episodes and the instruction."""
        return super().input_tokens(count) + self.episodes * self.episode_tokens


def load_program(wording: Wording, path: Path) -> Any:
    """The program of ``wording`` with what a DSPy optimizer taught it.

    Only JSON is read, because DSPy's other format runs code when it is loaded; a language model
    saved with the program is ignored.

    Raises:
        InputError: the file is not the saved state of such a program.
    """
    if path.suffix != ".json":
        raise InputError(
            f"program is {path}; required: a .json file, written by program.save('x.json')"
        )
    program = wording.program()
    try:
        program.load(path)
    except Exception as error:
        raise InputError(
            f"program {path} cannot be loaded ({type(error).__name__}: {error}); required: the "
            "saved state of a dspy.Predict with the fields of this proposer"
        ) from error
    program.set_lm(None)
    return program
