"""What is known of a trial while it runs, kept up to date by its events."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from evoprompt.evaluation import Headline
from evoprompt.events import (
    Asked,
    Evaluated,
    Event,
    Evolved,
    Notice,
    Proposed,
    Pruned,
    Seeded,
    Told,
    Verified,
)
from evoprompt.experiments.report.wording import Change, change
from evoprompt.types import legible


@dataclass(slots=True)
class Progress:
    """Where a trial stands.

    Attributes:
        budget: rollouts after which it ends.
        texts: instruction of every candidate seen, by id.
        probabilities: selection probability of each living candidate (paper Eq. 4).
        weights: importance weight of each living candidate (paper Eq. 6).
        reward: mean reward of the last step.
        generations: that ended, those with nobody to try included.
        failed: of them, those with nobody to try.
        headline: what the task's evaluations are compared by; None before the first.
        value: of it, at the last evaluation on validation.
        begun: time of the first event that was seen, in seconds; None before it.
    """

    budget: int
    step: int = 0
    rollouts: int = 0
    reward: float | None = None
    headline: Headline | None = None
    value: float | None = None
    generations: int = 0
    failed: int = 0
    texts: dict[str, str] = field(default_factory=dict)
    probabilities: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    begun: float | None = None
    _before: int = 0
    _changes: dict[str, Change] = field(default_factory=dict)

    @property
    def seconds_left(self) -> float | None:
        """Time until the budget is spent, at the pace seen so far; None before there is one."""
        seen = self.rollouts - self._before
        if not seen or self.begun is None:
            return None
        elapsed = time.monotonic() - self.begun
        return max(elapsed * (self.budget - self.rollouts) / seen, 0.0)

    def update(self, event: Event) -> str:
        """Takes note of ``event`` and returns a line for people; empty when it is routine."""
        self.step = event.step
        if self.begun is None:
            self.begun = time.monotonic()
        match event:
            case Seeded(candidate=candidate, components=components, origin=origin):
                self.texts[candidate] = legible(components)
                if origin:
                    return f"starts with {candidate} from {origin}"
            case Asked(probabilities=probabilities):
                self.probabilities = probabilities
            case Told():
                if not self.rollouts:  # a resumed trial begins with what it spent before
                    self._before = event.rollouts - event.trajectories
                self.rollouts, self.reward = event.rollouts, event.reward
                self.weights = event.weights
            case Proposed() if event.rule:
                return f"refused a proposal of {event.proposer} ({event.rule}: {event.reason})"
            case Proposed(candidate=candidate, components=components, parents=parents):
                self.texts[candidate] = legible(components)
                self._changes[candidate] = change(
                    self.texts.get(parents[0], ""), self.texts[candidate]
                )
            case Verified(parent=False, admitted=True, round=0):
                return f"kept {event.candidate} at {_mean(event)} after its probation"
            case Verified(parent=False, admitted=True):
                news = self.news(event.candidate)
                return f"admitted {event.candidate} at {_mean(event)}: {news}"
            case Verified(parent=False):
                return f"turned {event.candidate} away at {_mean(event)} ({event.reason})"
            case Evolved():
                self.weights = {
                    candidate: self.weights.get(candidate, 0.0) for candidate in event.population
                }
                self.generations += 1
                if event.failure:
                    self.failed += 1
                    count = f"{self.failed} of {self.generations}"
                    return f"failed generation, {count} so far: {event.failure}"
                return (
                    f"evolved: {len(event.admitted)} admitted in {event.rounds} rounds with "
                    f"{event.rollouts} rollouts, {len(event.population)} alive"
                )
            case Pruned():
                return f"pruned {', '.join(event.dropped)}; {len(event.kept)} alive"
            case Evaluated(headline=Headline() as headline):
                value = event.metrics[headline.name]
                if event.split == "validation":
                    self.headline, self.value = headline, value
                    self.rollouts = event.rollouts
                return f"{event.split} {headline.label} {value:.3f} with {event.candidate}"
            case Notice(message=message):
                return message
        return ""

    def news(self, candidate: str) -> str:
        """What is new in an instruction against its parent, on one line; all of a seed."""
        found = self._changes.get(candidate)
        if found is None:
            return " ".join(self.texts.get(candidate, "").split())
        parts = [f"+ {sentence}" for sentence in found.added]
        parts += [f"- {sentence}" for sentence in found.dropped]
        return " ".join(parts) or "the same sentences in another order"


def _mean(event: Verified) -> str:
    if event.mean is None:
        return "no reward"
    return f"{event.mean:.2f}" + (f"±{event.stderr:.2f}" if event.stderr is not None else "")
