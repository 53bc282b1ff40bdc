"""Other texts than the best one are written from, and a certain gain is never given up."""

from __future__ import annotations

import pytest
from optimizing import HABITS, SEED, TRAIN, Teacher, Writes, adding, learn

from benchmarks.frozen import WORLDS, optimized
from evoprompt import ProposalRequest
from evoprompt.support.errors import EvopromptWarning
from evoprompt.types import INSTRUCTION

VALIDATION = [f"validation question {n}" for n in range(40)]


@pytest.mark.parametrize(
    ("name", "seed", "calls"),
    [
        ("trap", 2000, 50),
        ("trap", 2003, 100),
        ("trap", 3009, 50),
        ("trap", 3011, 100),
        ("pair", 2001, 200),
    ],
)
def test_a_text_that_blocks_the_way_is_left_again(name: str, seed: int, calls: int) -> None:
    """The shortcut comes early in *trap* 3009, and as the first text in 3011."""
    problem = WORLDS[name](seed)
    result = optimized(problem, 2000, seed)
    assert problem.truth(result.best.components) >= problem.target
    assert result.proposer_calls < calls


def test_two_texts_that_improve_on_each_other_do_not_hold_the_search() -> None:
    """The best text fails one question in five; two others solve it, and half of the rest each."""

    def metric(example: str, output: str) -> float:
        number = int(example.split()[2])
        if number % 5 == 0:
            return float("Guess" not in output)
        return float("Guess" in output or ("odd" in output) == bool(number % 2))

    def write(request: ProposalRequest) -> str:
        text = request.parents[0].candidate.text
        if request.step == 1:
            return f"{text} Guess."
        if "Guess" in text:
            return f"{text} Sentence {request.step} is of no use."
        return text.replace("odd", "even") if "odd" in text else text.replace("even", "odd")

    result = learn(
        lambda text, _: text,
        metric,
        seed_instruction="You answer even questions.",
        valset=VALIDATION,
        proposer=Writes(write),
        patience=60,
        budget=2000,
    )
    assert result.best.text == "You answer even questions. Guess."
    texts = {stats.candidate.text for stats in result.candidates}
    assert {"You answer even questions.", "You answer odd questions."} <= texts


def test_without_noise_a_gain_at_one_question_in_forty_is_accepted() -> None:
    """A small gain is certain where the same answer comes each time."""

    def program(instruction: str, example: str) -> str:
        return instruction

    def metric(example: str, output: str) -> float:
        if example in VALIDATION and example != VALIDATION[17]:
            return 0.5
        return 0.9 if HABITS[0] in output else 0.5

    result = learn(program, metric, valset=VALIDATION, proposer=adding(HABITS[0]), patience=3)
    assert HABITS[0] in result.best.text


def test_after_a_doubtful_text_the_next_one_is_compared_on_few_questions_again() -> None:
    """Gains and losses need the whole validation set; what only gains does not."""

    def metric(example: str, output: str) -> float:
        if example in TRAIN:
            return 0.3 if output != SEED else 0.2
        is_odd = VALIDATION.index(example) % 2
        if "mixed" in output:
            return 0.45 if is_odd else 0.5
        return (0.1 if "clear" in output else 0.0) if is_odd else 1.0

    texts = iter([f"{SEED} Give mixed answers.", f"{SEED} Give clear answers."])
    result = learn(
        lambda instruction, _: instruction,
        metric,
        valset=VALIDATION,
        proposer=Writes(lambda _: next(texts, "")),
    )
    mixed, clear = result.candidates[1:]
    assert mixed.groups == len(VALIDATION)
    first = next(
        event
        for event in result.log
        if event["event"] == "evaluated" and event["candidate"] == clear.candidate.id
    )
    assert first["metrics"]["questions"] < 12
    assert result.best == clear.candidate


def test_each_request_to_the_proposer_is_counted_and_stated() -> None:
    teacher = Teacher()
    result = learn(proposer=teacher)
    assert result.proposer_calls == teacher.asked > 0
    assert f"{teacher.asked} requests to the proposer" in " ".join(result.facts)


def test_no_request_searches_the_installed_distributions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search takes 44 ms among 230 distributions, and only an error needs the name."""

    def search(**_: object) -> None:
        raise AssertionError("the installed distributions were searched")

    monkeypatch.setattr("evoprompt.support.calls.metadata.entry_points", search)
    assert learn().proposer_calls > 0


def test_where_nothing_new_comes_of_the_best_text_one_that_tied_with_it_is_the_parent() -> None:
    parents: list[str] = []

    def write(request: ProposalRequest) -> str:
        parents.append(request.parents[0].candidate.text)
        return f"{parents[-1]} Never mind."

    def metric(example: str, output: str) -> float:
        return 0.5 if example in TRAIN[::2] else 0.25

    learn(lambda text, _: text, metric, proposer=Writes(write), patience=24)
    assert set(parents[:20]) == {SEED}
    assert f"{SEED} Never mind." in parents[20:]


@pytest.mark.parametrize("components", [1, 3])
def test_a_metric_that_is_always_0_ends_it_after_45_iterations_of_each_component(
    components: int,
) -> None:
    names = [INSTRUCTION, "second", "third"][:components]

    def write(request: ProposalRequest) -> dict[str, str]:
        return {request.component: f"{SEED} Remember the number {request.step}."}

    with pytest.warns(EvopromptWarning, match="every reward"):
        result = learn(
            lambda texts, example: "an answer",
            lambda example, output: 0.0,
            seed_instruction=dict.fromkeys(names, SEED),
            proposer=Writes(write),
            budget=2000,
        )
    assert result.iterations == 45 * components


def test_a_text_that_shares_no_validation_question_never_becomes_the_best() -> None:
    """The program fails at all validation questions under it, and is better on the others."""

    def program(instruction: str, example: str) -> str:
        if HABITS[0] in instruction and example not in TRAIN:
            raise ValueError("too long")
        return instruction

    def metric(example: str, output: str) -> float:
        return 1.0 if HABITS[0] in output else 0.5

    parents: set[str] = set()

    def write(request: ProposalRequest) -> str:
        parents.add(request.parents[0].candidate.text)
        number = f" Remember the number {request.step}."
        return f"{SEED} {HABITS[0]}" if request.step % 2 else f"{SEED}{number}"

    with pytest.warns(EvopromptWarning, match="failed"):
        result = learn(program, metric, proposer=Writes(write), patience=30)
    assert HABITS[0] not in result.best.text
    assert SEED in parents
