"""What components return is checked before it is used; nonsense raises a ValueError."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from evoprompt.roles import Population, Probabilistic, Selector
from evoprompt.types import Candidate, CandidateStats, Trajectory, Verification, VerificationResult


def sound_chances(selector: Selector, candidate_stats: Sequence[CandidateStats]) -> Sequence[float]:
    """The selection probability of each candidate; empty if ``selector`` does not know it.

    Raises:
        ValueError: they are no distribution over the candidate_stats.
    """
    if not isinstance(selector, Probabilistic):
        return ()
    chances = list(selector.probabilities(candidate_stats))
    if (
        len(chances) != len(candidate_stats)
        or not all(chance >= 0 for chance in chances)
        or not math.isclose(math.fsum(chances), 1.0, rel_tol=1e-6)
    ):
        raise ValueError(
            f"its probabilities are {chances}; required: one for each of {len(candidate_stats)} "
            "candidates, none negative, of sum 1"
        )
    return chances


def sound_stats(found: CandidateStats, candidate: Candidate) -> CandidateStats:
    """``found``, what an attributor knows about ``candidate``.

    Raises:
        ValueError: it is about somebody else, or a number in it is none.
    """
    if (
        not isinstance(found, CandidateStats)
        or found.candidate.id != candidate.id
        or not math.isfinite(found.weight)
        or not found.stderr >= 0
        or not found.groups >= 0
    ):
        raise ValueError(
            f"what it knows of {candidate.id} is {found!r}; required: the CandidateStats of that "
            "candidate with a finite weight, a standard error and a number of groups of at least 0"
        )
    return found


def sound_living(found: Sequence[Candidate], known: Population) -> tuple[Candidate, ...]:
    """``found``, the living of a population.

    Raises:
        ValueError: there is none, one comes twice, or one is not alive as far as ``known`` knows.
    """
    living = tuple(found)
    ids = [candidate.id for candidate in living]
    if not ids or len(set(ids)) < len(ids) or not all(identity in known for identity in ids):
        raise ValueError(
            f"alive are {ids}; required: at least one, each once, of those added and not removed"
        )
    return living


def sound_verification(
    found: Verification,
    proposed: Sequence[Candidate],
    parents: Sequence[CandidateStats],
    slots: int,
) -> Verification:
    """``found``, the outcome of a verification round.

    Raises:
        ValueError: there is not one result for each of ``proposed``, a number in one is none, a
            stranger is among them, or more than ``slots`` are admitted, or one whom the rollouts
            could not measure.
    """
    if not isinstance(found, Verification):
        raise ValueError(f"it returned {found!r}; required: a Verification")
    wanted = sorted(candidate.id for candidate in proposed)
    old = {parent.candidate.id for parent in parents}
    judged = sorted(result.candidate.id for result in found.results)
    if judged != wanted:
        raise ValueError(f"it judged {judged}; required: one result for each of {wanted}")
    admitted = sum(result.admitted for result in found.results)
    if admitted > slots:
        raise ValueError(f"it admitted {admitted}; required: at most {slots}")
    for result in (*found.results, *found.parents):
        numbers = [
            number for number in (result.mean, result.stderr, result.expected) if number is not None
        ]
        if (
            result.scored < 0
            or (result.mean is None) == (result.scored > 0)
            or not all(map(math.isfinite, numbers))
        ):
            raise ValueError(
                f"its result is {result!r}; required: finite numbers, and None as the mean where "
                "nothing was scored"
            )
    for result in found.results:
        if result.admitted and result.mean is None and found.trajectories:
            raise ValueError(
                f"it admitted {result.candidate.id}, of whom nothing was scored; required: a "
                "measurement of everybody admitted, or no rollouts at all"
            )
    if not all(_is_of(result, old) for result in found.parents):
        raise ValueError(f"it measured as parents {found.parents!r}; required: of {sorted(old)}")
    known = {*wanted, *old}
    if not all(_is_of(trajectory, known) for trajectory in found.trajectories):
        raise ValueError(f"its trajectories are not all of {sorted(known)}")
    return found


def sound_conclusion(
    found: Verification | None, tried: Sequence[str], final: bool
) -> Verification | None:
    """``found``, the end of the probation of the candidates of the ids ``tried``.

    Raises:
        ValueError: there is not one result for each of them, or none at all where it was final.
    """
    if found is None and not final:
        return None
    judged = sorted(one.candidate.id for one in found.results) if found else []
    if judged != sorted(tried):
        raise ValueError(
            f"it ended a probation with results of {judged}; required: one for each of "
            f"{sorted(tried)}"
        )
    return found


def _is_of(one: VerificationResult | Trajectory, ids: Collection[str]) -> bool:
    return isinstance(one, VerificationResult | Trajectory) and one.candidate.id in ids
