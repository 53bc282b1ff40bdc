"""The firewall itself: an ordered list of rules, and what they may look at."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from evoprompt.text import told
from evoprompt.types import Proposal, estimate_tokens


@dataclass(frozen=True, slots=True)
class FirewallContext:
    """What a proposal is judged against.

    Attributes:
        parents: texts it was made from; what they already do is no offence in their offspring.
        required: substrings it must hold. Empty means: the tags that all parents have.
        living: texts of the candidates alive, and of the proposals accepted just before; of many
            ones a :class:`~evoprompt.firewall.known_texts.KnownTexts`, or every one is read.
        rejected: texts rejected lately, by the firewall or by the verifier; the same.
        questions: training questions a proposer may have seen.
        answers: their gold answers.
        control_tokens: special tokens of the policy's tokenizer, beyond the usual ones.
        max_tokens: most tokens an instruction may have, at least 1.
        max_prompt_tokens: most tokens of instruction and question together, chat template
            included; None when the host has no such limit.
        count_tokens: tokens of a text under the policy's tokenizer.
    """

    parents: Sequence[str] = ()
    required: Sequence[str] = ()
    living: Collection[str] = ()
    rejected: Collection[str] = ()
    questions: Sequence[str] = ()
    answers: Sequence[str] = ()
    control_tokens: Sequence[str] = ()
    max_tokens: int = 1024
    max_prompt_tokens: int | None = None
    count_tokens: Callable[[str], int] = estimate_tokens


class Rule(Protocol):
    """One ground for rejection: a function, known by its name."""

    @property
    def __name__(self) -> str: ...

    def __call__(self, proposal: Proposal, context: FirewallContext, /) -> str | None:
        """Why ``proposal`` must not be used, for a person to read; None when it may be."""
        ...


@dataclass(frozen=True, slots=True)
class Finding:
    """A rejection: the rule that made it, and its reason in words."""

    rule: str
    reason: str


class Firewall:
    """Judges proposals by rules, cheapest and plainest first.

    Args:
        rules: asked in order; the first finding is the verdict.

    >>> from evoprompt.firewall import default_rules
    >>> Firewall(default_rules()).check(Proposal.of("   "), FirewallContext())
    Finding(rule='empty', reason='the text holds no words')
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)

    def check(self, proposal: Proposal, context: FirewallContext) -> Finding | None:
        """The first finding about ``proposal``, or None when it may be rolled out.

        A rule that raises finds the proposal at fault.
        """
        for rule in self.rules:
            try:
                reason = rule(proposal, context)
            except Exception as error:  # what a rule cannot judge must not end a training run
                reason = f"the rule failed: {told(error)}"
            if reason is not None:
                return Finding(rule.__name__, reason)
        return None
