"""What a sentence is worth is found from rollouts of candidates that share sentences."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence

import numpy as np
import pytest

from evoprompt.attributors import Adjusted, WindowMean
from evoprompt.support.leads import SentenceValue
from evoprompt.testing.samples import question
from evoprompt.types import Assignment, Candidate, Trajectory

SENTENCES = [f"Do thing number {number}." for number in range(16)]


def trajectories(step: int, who: Candidate, number: int, reward: float) -> list[Trajectory]:
    asked = Assignment(f"{step}-{who.id}-{number}", question(number), who, 1, who.id)
    return [Trajectory(asked, reward)]


def lived(
    attributor: Adjusted, effects: Sequence[float], seed: int, steps: int = 45, most: int = 8
) -> None:
    """Eight candidates of random sentences; a third dies every fifth step, and others come."""
    rng = random.Random(seed)
    born = 0
    alive: list[Candidate] = []
    for step in range(1, steps + 1):
        while len(alive) < most:
            held = rng.sample(SENTENCES, rng.randint(2, 6))
            alive.append(Candidate(f"c{born}", {"instruction": " ".join(["Answer.", *held])}))
            born += 1
        told: list[Trajectory] = []
        for number in range(16):
            difficulty = rng.gauss(0.0, 1.5)
            for who in rng.sample(alive, 4):
                held_by = zip(SENTENCES, effects, strict=True)
                logit = difficulty + sum(effect for text, effect in held_by if text in who.text)
                reward = float(rng.random() < 1 / (1 + math.exp(-logit)))
                told += trajectories(step, who, 100 * step + number, reward)
        attributor.observe(step, told)
        if step % 5 == 0:
            gone, alive = alive[:3], alive[3:]
            attributor.forget([one.id for one in gone])


def test_intervals_cover_and_a_sentence_without_effect_is_not_called_good() -> None:
    effects = [0.0] * 12 + [0.8, -0.8, 0.5, 1.2]
    points = [0.19 * effect for effect in effects]  # the mean slope of these questions
    inside: list[bool] = []
    called: list[str] = []
    clear: list[str] = []
    for seed in range(6):
        attributor = Adjusted()
        lived(attributor, effects, seed)
        found = {one.text: one for one in attributor.sentences()}
        for text, truth, effect in zip(SENTENCES, points, effects, strict=True):
            worth = found[text]
            inside.append(abs(worth.value - truth) <= 2 * worth.stderr)
            if not effect:
                called.append(worth.verdict)
        clear.append(found[SENTENCES[15]].verdict)
    assert np.mean(inside) >= 0.9
    assert called.count("good") <= 0.025 * len(called) + 2
    assert clear.count("good") >= 5


def test_sentences_of_the_dead_count() -> None:
    attributor = Adjusted()
    texts = [f"Be quick. Way {place}." if place < 4 else f"Way {place}." for place in range(8)]
    everybody = [Candidate(f"c{place}", {"i": text}) for place, text in enumerate(texts)]
    for step in range(1, 21):
        told = [
            one
            for number in range(8)
            for place, who in enumerate(everybody)
            for one in trajectories(
                step, who, 10 * step + number, 1.0 if place < 4 else float((number + place) % 2)
            )
        ]
        attributor.observe(step, told)
    before = attributor.sentences()
    attributor.forget(["c0", "c1", "c2", "c3"])
    assert attributor.sentences() == before
    found = before[0]
    assert (found.text, found.verdict, found.holders) == ("Be quick.", "good", 4)
    assert found.value == pytest.approx(0.5, abs=2 * found.stderr)
    assert {one.verdict for one in before[1:]} == {"not shown"}


def test_a_resumed_run_says_the_same_and_memory_is_bounded() -> None:
    whole, effects = Adjusted(), [0.0] * 16
    lived(whole, effects, seed=3, steps=7, most=200)
    resumed = Adjusted()
    resumed.load_state_dict(json.loads(json.dumps(whole.state_dict())))
    assert resumed.sentences() == whole.sentences()
    saved = resumed.state_dict()["equations"]
    assert isinstance(saved, dict)
    assert isinstance(saved["names"], list)
    assert len(saved["names"]) == 128


def one_step(*told: tuple[str, float | None]) -> Sequence[SentenceValue]:
    attributor = Adjusted()
    candidates = [Candidate(f"c{place}", {"i": text}) for place, (text, _) in enumerate(told)]
    found = [
        Trajectory(Assignment(one.id, question(1), one, 1, "g"), reward)
        for one, (_, reward) in zip(candidates, told, strict=True)
    ]
    attributor.observe(1, found)
    return attributor.sentences()


def test_where_nothing_differs_nothing_is_said() -> None:
    assert one_step() == []
    assert one_step(("Be brief.", None), ("Answer.", None)) == []
    assert one_step(("Be brief. Answer.", 1.0)) == []
    assert WindowMean().sentences() == ()
    same = one_step(("Be brief. Answer.", 1.0), ("answer", 1.0))
    assert [(one.text, one.holders, one.verdict) for one in same] == [("Be brief.", 1, "not shown")]
    assert all(math.isfinite(one.stderr) for one in same)


def test_sentences_are_worked_out_once_for_the_same_rewards() -> None:
    attributor = Adjusted()
    lived(attributor, [0.5] * 16, seed=1, steps=6)
    before = attributor.sentences()
    assert before
    assert attributor.sentences() is before
    saved = json.loads(json.dumps(attributor.state_dict()))
    lived(attributor, [0.5] * 16, seed=2, steps=6)
    assert attributor.sentences() != before
    attributor.load_state_dict(saved)
    assert attributor.sentences() == before
    attributor.reset({})
    assert not attributor.sentences()
