"""What a task supplies so that instructions can be composed without an LLM."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from evoprompt.support.errors import InputError
from evoprompt.types import INSTRUCTION, Trajectory

Diagnose = Callable[[Trajectory], Sequence[str]]
"""Names what went wrong in a failed trajectory; empty when it cannot tell."""


@dataclass(frozen=True, slots=True)
class SentenceBank:
    """Sentences from which instructions can be composed.

    Attributes:
        sentences: several wordings per idea, by the idea's key.
        remedies: per diagnosis, the keys worth trying against it.
        fixed: sentences every instruction keeps, such as the one that names the protocol tags.
        component: of the candidates that they are for; a description of a tool, perhaps.
    """

    sentences: Mapping[str, Sequence[str]]
    remedies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    fixed: Sequence[str] = ()
    component: str = INSTRUCTION

    def without(self, ideas: Collection[str]) -> SentenceBank:
        """The bank with ``ideas`` left out, also as remedies.

        Raises:
            InputError: one of them is not in the bank, or no idea would be left.
        """
        unknown = sorted(set(ideas) - set(self.sentences))
        kept = {idea: texts for idea, texts in self.sentences.items() if idea not in ideas}
        if unknown or not kept:
            raise InputError(
                f"ideas to leave out are {sorted(ideas)}"
                + (f", of which the bank lacks {unknown}" if unknown else ", which is all of them")
                + f"; required: some of {', '.join(self.sentences)}; correct the list"
            )
        remedies = {
            diagnosis: [idea for idea in tried if idea not in ideas]
            for diagnosis, tried in self.remedies.items()
        }
        return replace(self, sentences=kept, remedies=remedies)


class BankOwner:
    """What a component may ask of the task of a run; a task inherits it.

    Attributes:
        bank: sentences for the proposers that work without an LLM, if there are any.
    """

    bank: SentenceBank | None = None

    def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
        """Names what went wrong in a failed trajectory; its question has id, text and answers."""
        return ()
