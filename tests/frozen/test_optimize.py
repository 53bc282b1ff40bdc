"""One call improves an instruction, spends no more than it may, and loses nothing."""

from __future__ import annotations

import asyncio
import json
import threading
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import stderr_of, stdout_of
from optimizing import HABITS, SEED, TRAIN, VALIDATION, Teacher, Writes, learn, metric, program

from evoprompt import EvopromptWarning, InputError, Proposal, ProposalRequest
from evoprompt.experiments.eventfile import read_events
from evoprompt.experiments.pool import read_pool
from evoprompt.log.evaluation import Score
from evoprompt.support.errors import BudgetError


class Counted:
    """The program, which counts its calls and may raise at one of them."""

    def __init__(self, raise_at: int = 0, error: BaseException | None = None) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self._raise_at, self._error = raise_at, error

    def __call__(self, instruction: str, example: str) -> str:
        self.calls[instruction, example] += 1
        if self._error is not None and self.calls.total() == self._raise_at:
            raise self._error
        return program(instruction, example)


def test_it_finds_what_all_questions_need_and_stops() -> None:
    counted = Counted()
    result = learn(counted)
    assert all(habit in result.best.text for habit in HABITS)
    assert result.value == 1.0
    assert result.asked == len(VALIDATION)
    assert "perfect" in result.stopped
    assert result.rollouts == counted.calls.total() < 150
    repeated = sum(count - 1 for count in counted.calls.values())
    assert repeated <= 12  # to see whether rewards are chance
    assert [point.rollouts for point in result.curve] == sorted(p.rollouts for p in result.curve)
    assert result.curve[0].text == SEED
    assert result.curve[-1][1:] == (1.0, result.best.text)
    left = result.rollouts - result.curve[-1].rollouts
    assert 0 < left <= len(TRAIN), "it has looked for a training question that still fails"
    assert result.best in [one.candidate for one in result.candidates]
    together = learn(max_concurrency=6)  # what comes first of what is asked at once is no matter
    assert together.value == 1.0
    assert list(together.log) == list(learn(max_concurrency=6).log)


def test_right_validation_questions_do_not_end_it_while_training_questions_fail() -> None:
    result = learn(valset=VALIDATION[::4])  # of one kind
    assert all(habit in result.best.text for habit in HABITS)
    assert "perfect" in result.stopped


def test_where_they_are_right_ten_iterations_without_progress_end_it() -> None:
    useless = Writes(lambda request: f"{SEED} {HABITS[0]} Remember the number {request.step}.")
    right = {"seed_instruction": f"{SEED} {HABITS[0]}", "valset": VALIDATION[::4]}
    result = learn(proposer=useless, **right)
    assert "perfect" in result.stopped
    assert result.iterations == 10
    assert learn(proposer=useless, patience=3, **right).iterations == 3


def test_beside_a_failure_the_proposer_reads_how_the_same_question_went_well() -> None:
    """Each text is right on a third of the questions, and on none of its parent's."""
    asked: list[ProposalRequest] = []

    def write(request: ProposalRequest) -> str:
        asked.append(request)
        return f"Go way {len(asked)}."

    def lucky(instruction: str, example: str) -> str:
        way = int(instruction.rstrip(".").split()[-1]) if "way" in instruction else 0
        right = way and int(example.split()[2]) % 3 == way % 3
        return "right" if right else f"wrong by {instruction}"

    learn(lucky, proposer=Writes(write), budget=300)
    assert not asked[0].successes
    for request in asked:
        solved = [one.question.id for one in request.successes]
        assert len(solved) == len(set(solved))
        assert set(solved) <= {one.question.id for one in request.failures}
        for one in request.successes:
            assert one.reward == 1.0
            assert one.turns[-1].action == one.feedback == "right"
            assert one.candidate.id != request.parents[0].candidate.id
    assert any(len(one.successes) == len(one.failures) for one in asked)


def test_the_proposer_reads_how_its_refused_text_failed_at_the_same_questions() -> None:
    asked: list[ProposalRequest] = []

    def write(request: ProposalRequest) -> str:
        asked.append(request)
        return f"Go way {len(asked)}."

    def fail(instruction: str, example: str) -> str:
        return f"wrong by {instruction}"

    learn(fail, proposer=Writes(write), budget=60, patience=3)
    first, second, third = asked[:3]
    assert {one.candidate.text for one in first.failures} == {SEED}
    for request, refused in ((second, "Go way 1."), (third, "Go way 2.")):
        again = [one for one in request.failures if one.candidate.text != SEED]
        assert again
        assert {one.turns[-1].action for one in again} == {f"wrong by {refused}"}
        own = {one.question.id for one in request.failures if one.candidate.text == SEED}
        assert {one.question.id for one in again} <= own


def test_components_get_their_texts_as_a_mapping() -> None:
    def answer(texts: Mapping[str, str], example: str) -> str:
        return program(texts["odd" if int(example[-1]) % 2 else "even"], example)

    def rewrite(request: ProposalRequest) -> Mapping[str, str]:
        wanted = request.rng.choice(request.failures).feedback.removeprefix("wrong: ")
        before = request.parents[0].candidate.components[request.component]
        return {request.component: f"{before} {wanted}"}

    seed = {"even": "You see even kinds.", "odd": "You see odd kinds."}
    result = learn(answer, seed_instruction=seed, proposer=Writes(rewrite), budget=600)
    assert result.value == 1.0
    assert HABITS[2] in result.best.components["even"]
    assert HABITS[3] in result.best.components["odd"]


@pytest.mark.parametrize("budget", [8, 33, 61])
def test_no_rollout_is_made_beyond_the_budget_repeated_attempts_included(
    budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def shaky(instruction: str, example: str) -> str:
        nonlocal calls
        calls += 1
        if calls % 7 == 0:
            raise ConnectionError("reset by peer")
        return program(instruction, example)

    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    result = learn(shaky, budget=budget)
    assert calls == result.rollouts <= budget
    assert "budget" in result.stopped


def test_async_programs_and_metrics_run_on_the_one_loop_and_leave_no_other_thread() -> None:
    loops: set[int] = set()
    at_once = most = 0

    async def answer(instruction: str, example: str) -> str:
        nonlocal at_once, most
        loops.add(id(asyncio.get_running_loop()))
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.002)
        at_once -= 1
        return program(instruction, example)

    async def judge(example: str, output: str) -> Score:
        await asyncio.sleep(0)
        return metric(example, output)

    before = set(threading.enumerate())  # of other tests, perhaps
    assert learn(answer, judge, max_concurrency=4).value == 1.0
    assert len(loops) == 1
    assert 1 < most <= 4
    new = {one for one in threading.enumerate() if one.name != "evoprompt-async"} - before
    for thread in new:
        if thread.name.startswith("evoprompt"):
            thread.join()
    assert not any(thread.is_alive() for thread in new)


def test_no_progress_ends_it() -> None:
    useless = Writes(lambda request: f"Dance {request.step} steps. {SEED}")
    result = learn(proposer=useless, patience=4)
    assert result.best.text == SEED
    assert result.iterations == 4
    assert result.stopped == "no progress in 4 iterations"


def test_a_proposer_that_always_fails_is_an_error_and_asked_again_when_it_is_mended(
    tmp_path: Path,
) -> None:
    class Moody(Teacher):
        works: Any = staticmethod(lambda asked: False)

        def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
            found = super().propose(request)
            if not self.works(self.asked):
                raise RuntimeError("out of ideas")
            return found

    failed = pytest.warns(EvopromptWarning, match="the proposer failed: RuntimeError: out of ideas")
    with (
        failed,
        pytest.raises(
            InputError, match=r"out of ideas, at .*all 10 requests to the proposer failed"
        ),
    ):
        learn(proposer=Moody(), directory=tmp_path / "run")
    with failed, pytest.raises(InputError, match="all 3 requests to the proposer failed"):
        learn(proposer=Moody(), patience=3)
    Moody.works = staticmethod(lambda asked: asked % 2 == 0)
    with pytest.warns(EvopromptWarning, match="out of ideas"):
        assert learn(proposer=Moody(), resume=tmp_path / "run").value == 1.0


def test_labels_are_no_secret() -> None:
    """An instruction may name the classes; what only one question has as its answer it may not."""
    labels = ("positive", "negative")
    rows = [{"question": f"How is review {n}?", "answer": labels[n % 2]} for n in range(30)]

    def classify(instruction: str, row: Mapping[str, str]) -> str:
        return row["answer"] if "positive or negative" in instruction else "good"

    result = learn(
        classify,
        lambda row, output: float(output == row["answer"]),
        trainset=rows[:15],
        valset=rows[15:],
        proposer=Writes(lambda request: "Answer positive or negative."),
    )
    assert result.best.text == "Answer positive or negative."


def test_on_a_resume_the_budget_may_be_higher_and_nothing_else_may_differ(tmp_path: Path) -> None:
    short = learn(directory=tmp_path, budget=40)
    assert short.value < 1
    with pytest.raises(InputError, match=r"seed is 1, and .* was begun with 0"):
        learn(resume=tmp_path, seed=1)
    with pytest.raises(InputError, match="trainset is '30 examples"):
        learn(resume=tmp_path, trainset=TRAIN[:30])
    with pytest.raises(InputError, match="which is not empty"):
        learn(directory=tmp_path)
    longer = learn(resume=tmp_path)
    assert longer.value == 1.0
    assert longer.curve[0] == short.curve[0]


@pytest.mark.filterwarnings("ignore:the proposer failed")
def test_a_higher_budget_of_the_language_model_goes_on_where_it_was_spent(tmp_path: Path) -> None:
    class Paid(Teacher):
        most = 2

        def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
            if self.asked >= self.most:
                raise BudgetError("2 calls; the budget is 2")
            return super().propose(request)

    found = learn(proposer=Paid(), directory=tmp_path / "out")
    Paid.most = 100
    assert learn(proposer=Paid(), resume=tmp_path / "out").iterations > found.iterations


def test_a_valset_is_split_off_and_its_size_told() -> None:
    with pytest.warns(EvopromptWarning, match="10 of the 20 training examples are held back"):
        assert learn(trainset=TRAIN[:20], valset=None).asked <= 10
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert learn(valset=None).asked == 20


def test_a_reward_above_perfect_is_refused_and_perfect_is_named() -> None:
    def percent(example: str, output: str) -> Score:
        return Score(100.0 * (output == "right"), output)

    with pytest.raises(InputError, match=r"returned 100.0 .*perfect is 1; .*perfect=100"):
        learn(lambda instruction, example: "right", metric=percent)
    assert learn(metric=percent, perfect=100.0).value == 100.0


def test_several_seeds_are_reported_with_their_spread_and_go_on_after_an_interrupt(
    tmp_path: Path,
) -> None:
    counted = Counted(80, KeyboardInterrupt())
    some = learn(counted, seeds=3, directory=tmp_path / "run", budget=60)
    assert [run.stopped == "it was interrupted" for run in some.runs] == [False, True]
    result = learn(seeds=3, resume=tmp_path / "run", budget=60)
    assert [run.seed for run in result.runs] == [0, 1, 2]
    assert all(run.rollouts <= 60 for run in result.runs)
    values = [run.value for run in result.runs]
    assert result.value == max(values)
    assert result.spread.mean == pytest.approx(sum(values) / 3)
    assert result.spread.std is not None
    assert learn(seed=1, budget=60).curve == result.runs[1].curve
    kept = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    assert [run["value"] for run in kept["runs"]] == values


@pytest.mark.parametrize("kept", [True, False])
def test_an_interrupt_says_how_to_go_on(
    kept: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = {"directory": tmp_path / "run"} if kept else {}
    learn(Counted(40, KeyboardInterrupt()), progress=True, **where)
    said = capsys.readouterr().err
    assert "the optimization ended: it was interrupted" in said
    assert ("OptimizeOptions(resume=True)" in said) == kept
    assert str(tmp_path / "run") in said if kept else "that takes directory=FOLDER" in said
    learn(progress=True)
    assert "go on" not in capsys.readouterr().err


def test_the_pool_of_an_earlier_call_is_where_another_starts(tmp_path: Path) -> None:
    first = learn(directory=tmp_path / "first")
    pool = [one["instruction"] for one in read_pool(tmp_path / "first")]
    result = learn(seed_instruction=pool, budget=60)
    assert result.value == 1.0
    assert result.best.text == first.best.text
    seeded = [e["components"]["instruction"] for e in result.log if e["event"] == "seeded"]
    assert seeded == pool


def test_an_instruction_must_hold_what_is_required_be_short_enough_and_no_copy() -> None:
    result = learn(budget=60, patience=10, max_tokens=12)
    assert "too_long" in {event.get("rule") for event in result.log}
    with pytest.raises(InputError, match=r"lacks \{question\}"):
        learn(required=["{question}"])
    said = "asked in many words so that no one takes it for chance"
    given: dict[str, Any] = {
        "program": lambda text, example: "right" if "Know this" in text else "wrong",
        "trainset": [f"{text}, which is {said}." for text in TRAIN],
        "proposer": Writes(lambda r: f"{SEED} Know this: {r.failures[0].question.text}"),
        "patience": 3,
    }
    with pytest.warns(EvopromptWarning, match="refused .leak: the text copies"):
        assert learn(**given).best.text == SEED
    assert "Know this" in learn(**given, refuse_copies=False).best.text
    given["proposer"] = Writes(lambda r: f"{SEED} Know this: {said}")
    assert "Know this" in learn(**given).best.text  # words of every question are no copy of one


@pytest.mark.report
@pytest.mark.parametrize("seeds", [1, 2])
def test_log_best_and_report_read_the_directory(seeds: int, tmp_path: Path) -> None:
    root = tmp_path / "run"
    result = learn(directory=root, seeds=seeds)
    events = list(read_events((root if seeds == 1 else root / "seed-1") / "events.jsonl"))
    kinds = {event["event"] for event in events}
    expected = (
        "seeded proposed verified rollout_samples candidates_disagreed evolved evaluated notice"
    )
    assert kinds == set(expected.split())
    assert events[-1]["message"].startswith("the optimization ended: the incumbent is perfect on")
    assert stdout_of("best", root).strip() == result.best.text
    stdout_of("report", root)
    page = (root / "report.html").read_text(encoding="utf-8")
    assert HABITS[0] in page
    assert "perfect on the whole validation set" in page
    (root / "result.json").unlink()
    assert "required: one that has ended" in stderr_of("best", root)


@pytest.mark.parametrize("said", ["to Infinity and NaN", "half \ud83d"])
def test_whatever_a_program_says_is_kept_and_not_paid_for_twice(tmp_path: Path, said: str) -> None:
    made: list[str] = []

    def speaks(instruction: str, example: str) -> str:
        made.append(example)
        return said

    found = learn(speaks, budget=60, patience=50, directory=tmp_path / "out")
    assert found.rollouts == len(made)
    again = learn(speaks, budget=60, patience=50, resume=tmp_path / "out")
    assert again.rollouts == found.rollouts
    assert found.rollouts == len(made)
