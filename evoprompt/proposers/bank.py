"""Sentences and diagnoses of a task, from which instructions are composed without an LLM."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from evoprompt.support.errors import InputError
from evoprompt.types import INSTRUCTION, Trajectory

Diagnose = Callable[[Trajectory], Sequence[str]]
"""Returns the diagnoses of a failed trajectory; empty if there is none."""


@dataclass(frozen=True, slots=True)
class SentenceBank:
    """Sentences from which instructions can be composed.

    Attributes:
        sentences: several variants of each idea, by the idea's key.
        remedies: keys of the ideas that may help against a diagnosis, by diagnosis.
        fixed: sentences of every instruction, such as the sentence that names the protocol tags.
        component: component of candidates to which they belong, such as a tool's description.
    """

    sentences: Mapping[str, Sequence[str]]
    remedies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    fixed: Sequence[str] = ()
    component: str = INSTRUCTION

    def without(self, ideas: Collection[str]) -> SentenceBank:
        """Return the bank without ``ideas``, also as remedies.

        Raises:
            InputError: an idea is not in the bank, or no idea would be left.
        """
        unknown = sorted(set(ideas) - set(self.sentences))
        remaining = {idea: texts for idea, texts in self.sentences.items() if idea not in ideas}
        if unknown or not remaining:
            raise InputError(
                f"ideas to leave out are {sorted(ideas)}"
                + (f", of which the bank lacks {unknown}" if unknown else ", which is all of them")
                + f"; required: some of {', '.join(self.sentences)}; correct the list"
            )
        remedies = {
            diagnosis: [idea for idea in remedy_ideas if idea not in ideas]
            for diagnosis, remedy_ideas in self.remedies.items()
        }
        return replace(self, sentences=remaining, remedies=remedies)


class BankOwner:
    """Base class of a task with sentences and diagnoses for components.

    Attributes:
        bank: sentences for the proposers that work without an LLM, if there are any.
    """

    bank: SentenceBank | None = None

    def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
        """Return the diagnoses of a failed trajectory; its question has id, text and answers."""
        return ()
