"""Proposers of evoprompt inside GEPA and DSPy."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evoprompt.optimizer.gepa import reading_of
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.rules import Rule, ScreeningContext
from evoprompt.screening import check
from evoprompt.types import (
    Assignment,
    Candidate,
    CandidateStats,
    Proposal,
    Question,
    Trajectory,
    Turn,
)

if TYPE_CHECKING:
    from gepa.core.adapter import ProposalFn

_COUNT = 4  # proposals per request, so that screening may reject some


def as_proposal_fn(
    proposer: Proposer,
    *,
    required: Sequence[str] = (),
    seed: int = 0,
    rules: Sequence[Rule] | None = None,
) -> ProposalFn:
    """Return ``proposer`` as the ``custom_candidate_proposer`` of ``gepa.optimize``.

    ``dspy.GEPA`` takes the same function as its ``instruction_proposer``. Every example from GEPA
    becomes a failed trajectory: its inputs are the question, its outputs the action, and its other
    fields, with the feedback last, the observation. A component without an accepted proposal keeps
    its text.

    Args:
        proposer: writes the texts.
        required: substrings that every text must keep, such as protocol tags.
        seed: seeds the generator that the proposer draws from.
        rules: of screening; ``default_rules()`` if not given.
    """
    rng = random.Random(seed)

    def propose(
        candidate: dict[str, str],
        reflective_dataset: Mapping[str, Sequence[Mapping[str, Any]]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        texts: dict[str, str] = {}
        for component in components_to_update:
            parent = Candidate("gepa", {"instruction": candidate[component]})
            request = ProposalRequest(
                _COUNT,
                [CandidateStats(parent, 0.0)],
                [failure(parent, example) for example in reflective_dataset.get(component, ())],
                history=[],
                rng=rng,
                required=required,
            )
            passed = (
                proposal
                for proposal in proposer.propose(request)
                if _passes(proposal, request, rules)
            )
            best = next(passed, None)
            if best is not None:
                texts[component] = best.text
        return texts

    return propose


def failure(candidate: Candidate, example: Mapping[str, Any]) -> Trajectory:
    """Return an example of a reflective dataset as a failed trajectory under ``candidate``."""
    reading = reading_of([example])
    text = reading.question
    (turn,) = reading.turns
    observation = "\n".join(filter(None, (turn.observation, reading.feedback)))
    assignment = Assignment(text, Question(text, text), candidate, 1, text)
    return Trajectory(assignment, 0.0, turns=(Turn(turn.action, observation),))


def _passes(proposal: Proposal, request: ProposalRequest, rules: Sequence[Rule] | None) -> bool:
    parent = request.parents[0].candidate.text
    context = ScreeningContext(
        parents=[parent],
        required=request.required,
        members=[parent],
        questions=[failure.question.text for failure in request.failures],
    )
    return check(proposal, context, rules) is None
