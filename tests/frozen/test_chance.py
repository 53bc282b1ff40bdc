"""Where rewards are partly luck, an instruction is still found, and luck alone convinces nobody."""

from __future__ import annotations

import math
import random
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

import optimizing
import pytest

from evoprompt import OptimizationResult, Proposal, ProposalRequest, Proposer

HABITS = ("Convert every unit.", "Spell out each date.", "Check signs twice.", "Name a source.")
TRAIN = [f"train question {n} about kind {n % 4}" for n in range(60)]
VALIDATION = [f"another question {n} about kind {n % 4}" for n in range(40)]


def known(text: str) -> int:
    return sum(habit in text for habit in HABITS)


class Teacher(Proposer):
    """Adds a habit, or every other time a sentence that is of no use."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        parent = request.parents[0].candidate
        added = request.rng.choice(HABITS)
        if request.rng.random() < 0.5 or added in parent.text:
            added = f"Remember the number {request.rng.randrange(100_000)} at all times."
        return [Proposal.of(f"{parent.text} {added}", parent)]


def run(
    reward: Callable[[str, str], float],
    seed: int,
    budget: int = 900,
    directory: Path | None = None,
    resume: Path | None = None,
) -> OptimizationResult:
    return optimizing.optimize(
        "You answer questions.",
        TRAIN,
        lambda example, output: output,
        program=reward,
        valset=VALIDATION,
        proposer=Teacher(),
        budget=budget,
        seed=seed,
        max_concurrency=1,
        progress=False,
        directory=directory,
        resume=resume,
    )


@pytest.mark.slow
def test_flipped_rewards_do_not_hide_what_helps() -> None:
    found = []
    for seed in range(5):
        rng = random.Random(seed)

        def flipped(text: str, example: str, rng: random.Random = rng) -> float:
            right = HABITS[int(example[-1])] in text
            return float(right != (rng.random() < 0.2))

        found.append(known(run(flipped, seed).best.text))
    assert fmean(found) >= 3


@pytest.mark.slow
def test_what_helps_everywhere_a_little_is_found() -> None:
    """No failure tells by itself: each habit makes all questions somewhat likelier to be right."""
    found = []
    for seed in range(5):
        rng = random.Random(seed)

        def drawn(text: str, example: str, rng: random.Random = rng) -> float:
            hard = (hash_of(example) % 100) / 25 - 2
            return float(rng.random() < 1 / (1 + math.exp(-(1.3 * known(text) - 2 - hard))))

        found.append(known(run(drawn, seed).best.text))
    assert fmean(found) >= 2.5


def hash_of(text: str) -> int:
    return sum(ord(letter) * (place + 1) for place, letter in enumerate(text))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_nothing_but_luck_costs_patience_and_not_the_budget(seed: int) -> None:
    rng = random.Random(seed)
    result = run(lambda text, example: float(rng.random() < 0.3), seed, budget=5000)
    assert result.rollouts < 5000
    assert result.value < 0.6


class KilledError(BaseException):
    """Nothing catches it."""


def flipping(kill_at: int = -1) -> Callable[[str, str], float]:
    """Rewards of which a fifth are flipped: which, depends on how often the same was asked."""
    asked: Counter[tuple[str, str]] = Counter()
    killed = False

    def reward(text: str, example: str) -> float:
        nonlocal killed
        if asked.total() == kill_at and not killed:
            killed = True
            raise KilledError
        asked[text, example] += 1
        luck = zlib.crc32(f"{text}/{example}/{asked[text, example]}".encode()) % 5
        return float((HABITS[int(example[-1])] in text) != (luck == 0))

    return reward


@pytest.mark.parametrize("kill_at", [9, 60, 130])
def test_a_killed_run_of_noisy_rewards_goes_on_as_if_nothing_had_happened(
    kill_at: int, tmp_path: Path
) -> None:
    run(flipping(), 1, 250, directory=tmp_path / "whole")
    reward = flipping(kill_at)
    with pytest.raises(KilledError):
        run(reward, 1, 250, directory=tmp_path / "killed")
    run(reward, 1, 250, resume=tmp_path / "killed")
    for name in ("journal.jsonl", "events.jsonl", "result.json"):
        ours, theirs = (tmp_path / folder / name for folder in ("killed", "whole"))
        assert ours.read_bytes() == theirs.read_bytes(), name


def test_a_failure_that_nothing_can_mend_does_not_keep_the_others_from_being_seen() -> None:
    """Three labels are wrong; they are found first, and would be shown for ever."""
    shown: set[str] = set()

    class Watching(Teacher):
        def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
            shown.update(failure.question.text for failure in request.failures)
            parent = request.parents[0].candidate
            return [Proposal.of(f"{parent.text} Remember the number {request.step}.", parent)]

    result = optimizing.optimize(
        "You answer questions.",
        TRAIN,
        lambda example, output: output,
        program=lambda text, example: 0.0,
        valset=VALIDATION,
        proposer=Watching(),
        budget=900,
        patience=20,
        max_concurrency=1,
    )
    assert result.iterations == 20
    assert len(shown) > 6
