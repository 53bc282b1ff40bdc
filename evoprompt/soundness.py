"""What components return is checked before it is used; nonsense raises a ValueError."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Sequence

from evoprompt.interfaces import Population, Probabilistic, Selector
from evoprompt.types import Candidate, Standing, Trajectory, Verdict, Verification


def sound_choice(
    selector: Selector, standings: Sequence[Standing], k: int, rng: random.Random
) -> list[Standing]:
    """``k`` of ``standings``, chosen by ``selector``.

    Raises:
        ValueError: it chose another number, or somebody it was not given.
    """
    chosen = list(selector.select(standings, k, rng))
    given = {standing.candidate.id for standing in standings}
    strangers = [one for one in chosen if not _is_of(one, given)]
    if strangers:
        raise ValueError(f"it chose {strangers[0]!r}; required: only standings it was given")
    if len(chosen) != k:
        raise ValueError(f"it chose {len(chosen)} candidates; required: exactly {k}")
    return chosen


def sound_chances(selector: Selector, standings: Sequence[Standing]) -> Sequence[float]:
    """The selection probability of each of ``standings``; empty if ``selector`` does not know it.

    Raises:
        ValueError: they are no distribution over the standings.
    """
    if not isinstance(selector, Probabilistic):
        return ()
    chances = list(selector.probabilities(standings))
    if (
        len(chances) != len(standings)
        or not all(chance >= 0 for chance in chances)
        or not math.isclose(math.fsum(chances), 1.0, rel_tol=1e-6)
    ):
        raise ValueError(
            f"its probabilities are {chances}; required: one for each of {len(standings)} "
            "candidates, none negative, of sum 1"
        )
    return chances


def sound_standing(found: Standing, candidate: Candidate) -> Standing:
    """``found``, what an attributor knows about ``candidate``.

    Raises:
        ValueError: it is about somebody else, or a number in it is none.
    """
    if (
        not isinstance(found, Standing)
        or found.candidate.id != candidate.id
        or not math.isfinite(found.weight)
        or not found.stderr >= 0
        or not found.groups >= 0
    ):
        raise ValueError(
            f"its standing of {candidate.id} is {found!r}; required: a Standing of that candidate "
            "with a finite weight, a standard error and a number of groups of at least 0"
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
    found: Verification, proposed: Sequence[Candidate], parents: Sequence[Standing], slots: int
) -> Verification:
    """``found``, the outcome of a verification round.

    Raises:
        ValueError: there is not one verdict for each of ``proposed``, a number in one is none, a
            stranger is among them, or more than ``slots`` are admitted.
    """
    if not isinstance(found, Verification):
        raise ValueError(f"it returned {found!r}; required: a Verification")
    wanted = sorted(candidate.id for candidate in proposed)
    old = {parent.candidate.id for parent in parents}
    judged = sorted(verdict.candidate.id for verdict in found.verdicts)
    if judged != wanted:
        raise ValueError(f"it judged {judged}; required: one verdict for each of {wanted}")
    admitted = sum(verdict.admitted for verdict in found.verdicts)
    if admitted > slots:
        raise ValueError(f"it admitted {admitted}; required: at most {slots}")
    for verdict in (*found.verdicts, *found.parents):
        if verdict.scored < 0 or (verdict.scored and not math.isfinite(verdict.mean)):
            raise ValueError(f"its verdict is {verdict!r}; required: a finite mean of the scored")
        if math.isinf(verdict.mean) or math.isinf(verdict.stderr):
            raise ValueError(f"its verdict is {verdict!r}; required: no infinity")
    if not all(_is_of(verdict, old) for verdict in found.parents):
        raise ValueError(f"it measured as parents {found.parents!r}; required: of {sorted(old)}")
    known = {*wanted, *old}
    if not all(_is_of(trajectory, known) for trajectory in found.trajectories):
        raise ValueError(f"its trajectories are not all of {sorted(known)}")
    return found


def _is_of(one: Standing | Verdict | Trajectory, ids: Collection[str]) -> bool:
    return isinstance(one, Standing | Verdict | Trajectory) and one.candidate.id in ids
