"""What a task supplies so that instructions can be composed without an LLM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from evoprompt.types import Trajectory

Diagnose = Callable[[Trajectory], Sequence[str]]
"""Names what went wrong in a failed trajectory; empty when it cannot tell."""


@dataclass(frozen=True, slots=True)
class SentenceBank:
    """Sentences from which instructions can be composed.

    Attributes:
        sentences: several wordings per idea, by the idea's key.
        remedies: per diagnosis, the keys worth trying against it.
        fixed: sentences every instruction keeps, such as the one that names the protocol tags.
    """

    sentences: Mapping[str, Sequence[str]]
    remedies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    fixed: Sequence[str] = ()
