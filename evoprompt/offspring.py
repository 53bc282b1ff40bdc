"""What a generation brought, and how the generations of a run ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, NonNegativeInt

from evoprompt.screening import Finding
from evoprompt.storage import SavedRecord
from evoprompt.types import CandidateStats, Trajectory, Verification, VerificationResult

_IN_A_ROW = 3  # failed generations that are no longer bad luck


class Unfilled(BaseModel):
    """A generation that goes on at a later step, since it has filled not all of its places yet.

    Attributes:
        rounds: that it had.
        tried: candidates that were tried in them.
        admitted: candidates that it brought.
        places: that are left.
    """

    rounds: NonNegativeInt = 0
    tried: NonNegativeInt = 0
    admitted: NonNegativeInt = 0
    places: NonNegativeInt = 0


@dataclass(slots=True)
class Offspring:
    """What one generation brought forth, or a part of one that goes on at a later step.

    Attributes:
        before: what was left of the generation that this goes on with; None where one begins.
        parents: whom it improves.
        kept: ids of those that stay beside it.
        places: that were free.
        admitted: results of the candidates to admit, in order of admission.
        verifications: what the verifier found, a round each.
        asked: whether the proposer was asked at all.
        rounds: propose-verify rounds made.
        proposed: proposals received, rejected ones included.
        tried: candidates that passed screening and could be verified.
        proposer_failures: times the proposer raised or returned something else than proposals.
        findings: of screening, against the others.
        obstacle: why nobody could be tried in the last round; empty if somebody was.
        cut: whether the budget had no room for the last verification.
        unfinished: whether it can go on at a later step, since the proposer is not waited for.
    """

    before: Unfilled | None = None
    parents: Sequence[CandidateStats] = ()
    kept: frozenset[str] = frozenset()
    places: int = 0
    admitted: list[VerificationResult] = field(default_factory=list)
    verifications: list[Verification] = field(default_factory=list)
    asked: bool = False
    rounds: int = 0
    proposed: int = 0
    tried: int = 0
    proposer_failures: int = 0
    findings: list[Finding] = field(default_factory=list)
    obstacle: str = ""
    cut: bool = False
    unfinished: bool = False

    @property
    def left(self) -> Unfilled:
        """The generation so far, with the parts at earlier steps."""
        before = self.before or Unfilled(places=self.places)
        return Unfilled(
            rounds=before.rounds + self.rounds,
            tried=before.tried + self.tried,
            admitted=before.admitted + len(self.admitted),
            places=self.places,
        )

    @property
    def failure(self) -> str:
        """Why the generation failed (:class:`GenerationStats`); empty if it did not, or goes on."""
        return self.obstacle if self.asked and not self.left.tried and not self.unfinished else ""

    @property
    def refused(self) -> bool:
        """Whether the generation has ended, and all that were tried were turned away."""
        so_far = self.left
        turned_away = so_far.tried > 0 and not so_far.admitted
        return turned_away and not self.cut and not self.unfinished

    @property
    def candidate_stats(self) -> list[CandidateStats]:
        """What verification showed of all that were scored."""
        return [
            CandidateStats(one.candidate, _expected(one, one.mean), groups=one.scored)
            for found in self.verifications
            for one in found.results
            if one.mean is not None
        ]

    @property
    def answers(self) -> list[Trajectory]:
        """Trajectories of the verification, parents' included."""
        return [one for found in self.verifications for one in found.trajectories]

    @property
    def expected(self) -> dict[str, float]:
        """Mean rewards per candidate id, where a verifier expects others than it measured."""
        return {
            one.candidate.id: one.expected
            for found in self.verifications
            for one in (*found.parents, *found.results)
            if one.expected is not None
        }


def _expected(result: VerificationResult, mean: float) -> float:
    return mean if result.expected is None else result.expected


class GenerationStats(SavedRecord):
    """How the generations of a run ended; counts that survive a resume.

    A generation *failed* when its proposer was asked and nobody was admitted because there was
    nobody to try: the proposer raised, proposed nothing, or screening refused all that it proposed.
    When candidates were tried and verification turned all of them away, the generation was
    *refused*: that is a finding, not a failure, and it is counted apart.

    Attributes:
        generations: in which the proposer was asked.
        generations_failed: of them, those that failed.
        generations_refused: of them, those that were refused.
        proposer_failures: times the proposer raised, or returned something else than proposals.
        admitted_total: candidates admitted.
        failed_in_a_row: generations that failed since the last one that did not.
        last_failure: why the last failed generation failed.
    """

    generations: int = 0
    generations_failed: int = 0
    generations_refused: int = 0
    proposer_failures: int = 0
    admitted_total: int = 0
    failed_in_a_row: int = 0
    last_failure: str = ""

    @property
    def all_failed(self) -> bool:
        """Whether there were generations, and every one of them failed."""
        return 0 < self.generations == self.generations_failed

    def count(self, step: int, offspring: Offspring) -> str:
        """Counts a generation, or a part of one, that took place at engine step ``step``.

        Returns:
            What a person should be warned of: the first failure, and three in a row; else empty.
        """
        self.generations += offspring.asked and offspring.before is None
        self.generations_refused += offspring.refused
        self.proposer_failures += offspring.proposer_failures
        self.admitted_total += len(offspring.admitted)
        if not offspring.failure:
            self.failed_in_a_row = 0
            return ""
        self.generations_failed += 1
        self.failed_in_a_row += 1
        self.last_failure = offspring.failure
        said = f"{offspring.failure}; training goes on under the instructions it has"
        if self.failed_in_a_row == _IN_A_ROW:
            return f"{_IN_A_ROW} generations in a row failed, the last at step {step}: {said}"
        if self.generations_failed == 1:
            return f"the generation at step {step} failed: {said}"
        return ""

    def metrics(self) -> dict[str, float]:
        """The counts of the whole run."""
        return {
            name: float(getattr(self, name))
            for name in (
                "generations",
                "generations_failed",
                "generations_refused",
                "proposer_failures",
                "admitted_total",
            )
        }
