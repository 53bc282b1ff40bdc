"""One call improves an instruction, spends no more than it may, and loses nothing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import optimizing
import pytest

import evoprompt
from evoprompt import EvopromptWarning, InputError, Proposal, ProposalRequest, Proposer
from evoprompt.evaluation import Score
from evoprompt.experiments.cli import main
from evoprompt.experiments.eventfile import read_events
from evoprompt.experiments.pool import seeds_with
from evoprompt.lm.errors import BudgetError
from evoprompt.optimizer.journal import JOURNAL
from evoprompt.optimizer.result import OptimizationResult

HABITS = (
    "Convert every unit.",
    "Spell out each date.",
    "Check the sign twice.",
    "Name your source.",
)
SEED = "You answer questions."
TRAIN = [f"train question {n} about kind {n % 4}" for n in range(40)]
VALIDATION = [f"another question {n} about kind {n % 4}" for n in range(24)]


def program(instruction: str, example: str) -> str:
    habit = HABITS[int(example[-1])]
    return "right" if habit in instruction else f"wrong: {habit}"


def metric(example: str, output: str) -> Score:
    return Score(float(output == "right"), output)


class Teacher(Proposer):
    """Adds the habit that a failure asks for; every third time it writes nonsense."""

    def __init__(self) -> None:
        self.asked = 0

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        self.asked += 1
        parent = request.parents[0].candidate
        wanted = request.rng.choice(request.failures).feedback.removeprefix("wrong: ")
        if request.rng.random() < 0.3:
            wanted = f"Remember the number {request.rng.randrange(10_000)} at all times."
        return [Proposal.of(f"{parent.text} {wanted}", parent)]


def optimize(
    program: Callable[[str, str], Any] = program,
    metric: Callable[[str, Any], Any] = metric,
    seed_instruction: Any = SEED,
    trainset: Sequence[str] = TRAIN,
    **given: Any,
) -> evoprompt.OptimizationResult:
    settings: dict[str, Any] = {
        "valset": VALIDATION,
        "proposer": Teacher(),
        "budget": 400,
        "max_concurrency": 1,
        "progress": False,
        **given,
    }
    return optimizing.optimize(seed_instruction, trainset, metric, program=program, **settings)


def test_beside_a_failure_the_proposer_reads_how_the_same_question_went_well() -> None:
    """Each text is right on a third of the questions, and on none of its parent's."""
    asked: list[ProposalRequest] = []

    class Ways(Proposer):
        def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
            asked.append(request)
            return [Proposal.of(f"Go way {len(asked)}.", request.parents[0].candidate)]

    def lucky(instruction: str, example: str) -> str:
        way = int(instruction.rstrip(".").split()[-1]) if "way" in instruction else 0
        right = way and int(example.split()[2]) % 3 == way % 3
        return "right" if right else f"wrong by {instruction}"

    optimizing.optimize(
        SEED, TRAIN, metric, program=lucky, proposer=Ways(), budget=300, progress=False
    )
    assert not asked[0].successes
    assert any(request.successes for request in asked)
    for request in asked:
        failed = [one.question.id for one in request.failures]
        solved = [one.question.id for one in request.successes]
        assert len(solved) == len(set(solved))
        assert set(solved) <= set(failed)
        for one in request.successes:
            assert one.reward == 1.0
            assert one.turns[-1].action == one.feedback == "right"
            assert one.candidate.id != request.parents[0].candidate.id
    last = asked[-1]
    assert len(last.successes) == len({one.question.id for one in last.failures})


def test_it_finds_what_all_questions_need_and_stops() -> None:
    asked: Counter[tuple[str, str]] = Counter()

    def counted(instruction: str, example: str) -> str:
        asked[instruction, example] += 1
        return program(instruction, example)

    result = optimize(counted)
    assert all(habit in result.best.text for habit in HABITS)
    assert result.value == 1.0
    assert result.asked == len(VALIDATION)
    assert "perfect" in result.stopped
    assert result.rollouts == sum(asked.values()) < 150
    assert sum(count - 1 for count in asked.values()) <= 12  # to see whether rewards are chance
    assert [point.rollouts for point in result.curve] == sorted(p.rollouts for p in result.curve)
    assert result.curve[0].text == SEED
    assert result.curve[-1] == (result.rollouts, 1.0, result.best.text)
    assert result.best in [one.candidate for one in result.candidates]


def test_components_get_their_texts_as_a_mapping() -> None:
    def answer(texts: Mapping[str, str], example: str) -> str:
        kind = int(example[-1])
        habit = HABITS[kind]
        return "right" if habit in texts["even" if kind % 2 == 0 else "odd"] else f"wrong: {habit}"

    class Rewriter(Proposer):
        def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
            parent = request.parents[0].candidate
            wanted = request.rng.choice(request.failures).feedback.removeprefix("wrong: ")
            name = request.component
            assert name in ("even", "odd")
            texts = {**parent.components, name: f"{parent.components[name]} {wanted}"}
            return [Proposal(texts, (parent.id,))]

    seed: Mapping[str, str] = {"even": "You see even kinds.", "odd": "You see odd kinds."}
    result = optimizing.optimize(
        seed,
        TRAIN,
        metric,
        program=answer,
        valset=VALIDATION,
        proposer=Rewriter(),
        budget=600,
        max_concurrency=1,
    )
    assert result.value == 1.0
    assert HABITS[2] in result.best.components["even"]
    assert HABITS[3] in result.best.components["odd"]


@pytest.mark.parametrize("budget", [8, 9, 20, 33, 61])
def test_no_rollout_is_made_beyond_the_budget(budget: int) -> None:
    calls = 0

    def counted(instruction: str, example: str) -> str:
        nonlocal calls
        calls += 1
        return program(instruction, example)

    result = optimize(counted, budget=budget)
    assert calls == result.rollouts <= budget
    assert "budget" in result.stopped


def test_repeated_attempts_are_rollouts_too() -> None:
    calls = 0

    def shaky(instruction: str, example: str) -> str:
        nonlocal calls
        calls += 1
        if calls % 7 == 0:
            raise ConnectionError("reset by peer")
        return program(instruction, example)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
        result = optimize(shaky, budget=60)
    assert calls == result.rollouts <= 60
    assert all(one.weight >= 0 for one in result.candidates)
    assert "failed" not in result.stopped


def test_async_programs_and_metrics_run_on_one_loop_many_at_a_time() -> None:
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

    result = optimize(answer, judge, max_concurrency=4)
    assert result.value == 1.0
    assert len(loops) == 1
    assert 1 < most <= 4


def test_concurrency_changes_nothing_but_the_time() -> None:
    alone, together = optimize(), optimize(max_concurrency=6)
    assert list(alone.log) == list(together.log)
    assert alone.curve == together.curve


def test_a_failure_of_the_program_is_no_bad_reward() -> None:
    def fragile(instruction: str, example: str) -> str:
        if example.startswith("another question 3 "):
            raise ValueError("no such table")
        return program(instruction, example)

    result = optimize(fragile)
    assert all(habit in result.best.text for habit in HABITS)
    assert result.value == 1.0
    assert result.asked == len(VALIDATION) - 1


def test_ctrl_c_returns_what_was_found() -> None:
    calls = 0

    def interrupted(instruction: str, example: str) -> str:
        nonlocal calls
        calls += 1
        if calls == 50:
            raise KeyboardInterrupt
        return program(instruction, example)

    result = optimize(interrupted)
    assert result.stopped == "it was interrupted"
    assert result.best.text != SEED
    assert calls <= result.rollouts < calls + 8  # what was under way may have been billed


def test_no_progress_ends_it() -> None:
    class Useless(Proposer):
        def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
            parent = request.parents[0].candidate
            return [Proposal.of(f"Dance {request.step} steps. {parent.text}", parent)]

    result = optimize(proposer=Useless(), patience=4)
    assert result.best.text == SEED
    assert result.iterations == 4
    assert result.stopped == "no progress in 4 iterations"


def test_a_proposer_that_never_writes_anything_is_given_up() -> None:
    class Broken(Proposer):
        def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
            raise RuntimeError("out of ideas")

    with (
        pytest.warns(EvopromptWarning, match="the proposer failed: RuntimeError: out of ideas"),
        pytest.raises(
            InputError,
            match=r"out of ideas, at .* in propose; so it went each of the 10 times it was",
        ),
    ):
        optimize(proposer=Broken())
    with pytest.warns(EvopromptWarning), pytest.raises(InputError, match="each of the 3 times"):
        optimize(proposer=Broken(), patience=3)


def test_a_proposer_that_is_mended_is_asked_again(tmp_path: Path) -> None:
    class Broken(Teacher):
        def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
            raise RuntimeError("no key")

    with pytest.warns(EvopromptWarning), pytest.raises(InputError, match="no key"):
        optimize(proposer=Broken(), directory=tmp_path / "run")
    Broken.__name__ = "Teacher"
    settings = (tmp_path / "run" / "settings.yaml").read_text(encoding="utf-8")
    fixed = settings.replace("proposer: Broken", "proposer: Teacher")
    (tmp_path / "run" / "settings.yaml").write_text(fixed, encoding="utf-8")
    assert optimize(resume=tmp_path / "run").value == 1.0


def test_a_proposer_that_fails_at_times_is_asked_on() -> None:
    class Moody(Teacher):
        def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
            found = super().propose(request)
            if self.asked % 2:
                raise RuntimeError("not now")
            return found

    with pytest.warns(EvopromptWarning, match="not now"):
        assert optimize(proposer=Moody()).value == 1.0


def test_labels_are_no_secret() -> None:
    """An instruction may name the classes; what only one question has as its answer it may not."""
    rows = [
        {"question": f"How is review {n}?", "answer": ("positive", "negative")[n % 2]}
        for n in range(30)
    ]

    def classify(instruction: str, row: Mapping[str, str]) -> str:
        return row["answer"] if "positive or negative" in instruction else "good"

    def score(row: Mapping[str, str], output: str) -> float:
        return float(output == row["answer"])

    class Namer(Proposer):
        def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
            assert request.failures[0].question.answers in (("positive",), ("negative",))
            return [Proposal.of("Answer positive or negative.", request.parents[0].candidate)]

    result = optimizing.optimize(
        "Judge the review.",
        rows[:15],
        score,
        program=classify,
        valset=rows[15:],
        proposer=Namer(),
        budget=100,
        max_concurrency=1,
    )
    assert result.best.text == "Answer positive or negative."


@pytest.mark.parametrize("kill_at", [1, 5, 17, 30, 44, 71])
def test_a_killed_run_goes_on_as_if_nothing_had_happened(kill_at: int, tmp_path: Path) -> None:
    whole = optimize(directory=tmp_path / "whole")
    calls = 0

    class KilledError(BaseException):
        pass

    def killed(instruction: str, example: str) -> str:
        nonlocal calls
        calls += 1
        if calls == kill_at:
            raise KilledError
        return program(instruction, example)

    with pytest.raises(KilledError):
        optimize(killed, directory=tmp_path / "killed")
    with (tmp_path / "killed" / JOURNAL).open("ab") as file:
        file.write(b'{"event": "measured", "step"')  # what a kill in the middle of a line leaves
    calls = -1_000_000
    resumed = optimize(killed, resume=tmp_path / "killed")
    for name in (JOURNAL, "events.jsonl", "result.json", "best_instruction.txt"):
        ours, theirs = (tmp_path / run / name for run in ("killed", "whole"))
        assert ours.read_bytes() == theirs.read_bytes(), name
    assert calls + 1_000_000 == whole.rollouts - (kill_at - 1)
    assert resumed.curve == whole.curve


def test_a_finished_run_can_be_given_more(tmp_path: Path) -> None:
    short = optimize(directory=tmp_path, budget=40)
    assert short.value < 1
    longer = optimize(resume=tmp_path, budget=400)
    assert longer.value == 1.0
    assert longer.curve[0] == short.curve[0]


def test_other_arguments_are_refused_on_a_resume(tmp_path: Path) -> None:
    optimize(directory=tmp_path, budget=40)
    with pytest.raises(InputError, match=r"seed is 1, and .* was begun with 0"):
        optimize(resume=tmp_path, seed=1)
    with pytest.raises(InputError, match="trainset is '30 examples"):
        optimize(resume=tmp_path, trainset=TRAIN[:30])
    with pytest.raises(InputError, match="which is not empty"):
        optimize(directory=tmp_path)


def test_the_log_can_be_read_back(tmp_path: Path) -> None:
    optimize(directory=tmp_path)
    events = list(read_events(tmp_path / "events.jsonl"))
    kinds = {event["event"] for event in events}
    assert kinds == {"seeded", "proposed", "verified", "shown", "evolved", "evaluated", "notice"}
    (last,) = (event for event in events if event["event"] == "notice")
    assert last["message"].startswith("it ended: the incumbent is perfect on")
    found = json.loads((tmp_path / "result.json").read_text())
    assert found["value"] == 1.0
    assert found["best"] == {"instruction": (tmp_path / "best_instruction.txt").read_text().strip()}


def test_a_valset_is_split_off_and_its_size_told() -> None:
    with pytest.warns(EvopromptWarning, match="10 of the 20 training examples are held back"):
        result = optimize(trainset=TRAIN[:20], valset=None)
    assert result.asked <= 10
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert optimize(valset=None).asked == 20


def nothing(instruction: str, example: str) -> None:
    return None


def test_bad_input_is_told_in_one_line() -> None:
    def said(**given: Any) -> str:
        with pytest.raises(InputError) as raised:
            optimize(**given)
        text = str(raised.value)
        assert "\n" not in text
        assert "required" in text
        return text

    def broken(instruction: str, example: str) -> str:
        raise KeyError("temprature")

    def raising(example: str, output: str) -> float:
        raise ZeroDivisionError

    assert "the trainset is empty" in said(trainset=[])
    assert "the valset is empty" in said(valset=[])
    assert "the trainset is a str" in said(trainset="a question")
    assert "returned 'good' for valset/" in said(metric=lambda example, output: "good")
    assert "returned nan for valset/" in said(metric=lambda example, output: float("nan"))
    assert "returned None for valset/" in said(metric=lambda example, output: None)
    assert "the metric raised ZeroDivisionError" in said(metric=raising)
    assert "KeyError: 'temprature'" in said(program=broken)
    assert "it returned None" in said(program=nothing)
    assert "budget is 5 rollouts; required: at least 8" in said(budget=5)
    assert "budget is True" in said(budget=True)
    assert "program is None" in said(program=None)
    assert "lm is not given" in said(proposer="reflection")
    assert "lm is not given, and the proposer 'guo2024-ga' asks" in said(proposer="guo2024-ga")
    banked = said(proposer="sentence-edit")
    assert 'required: proposer="reflection" with lm="openai/gpt-5-mini", or an object' in banked
    assert "engine." not in banked
    assert "arms" not in banked
    assert banked == said(proposer="sentence-edit", lm="openai/gpt-5-mini")
    assert "no-such-proposer" in said_of_plugin()
    assert "proposer is a str" not in said(proposer=object())
    assert "is empty" in said(seed_instruction=" ")


@pytest.mark.usefixtures("fake_task")
def test_a_model_for_a_proposer_that_takes_none_is_refused() -> None:
    with pytest.raises(InputError, match="the proposer 'mute' takes none; required: one that does"):
        optimize(proposer="mute", lm="openai/gpt-5-mini")


def said_of_plugin() -> str:
    with pytest.raises(LookupError) as raised:
        optimize(proposer="no-such-proposer")
    return str(raised.value)


def test_a_metric_that_breaks_in_the_middle_loses_nothing() -> None:
    calls = 0

    def breaking(example: str, output: str) -> Score:
        nonlocal calls
        calls += 1
        if calls > 45:
            raise ZeroDivisionError
        return metric(example, output)

    with pytest.warns(EvopromptWarning, match="stopped: the metric raised ZeroDivisionError"):
        result = optimize(metric=breaking)
    assert "ZeroDivisionError" in result.stopped
    assert result.best.text != SEED


def test_it_leaves_no_thread_behind() -> None:
    async def answer(instruction: str, example: str) -> str:
        return program(instruction, example)

    before = set(threading.enumerate())  # of other tests, perhaps
    optimize(answer, max_concurrency=3)
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("evoprompt"):
            thread.join()
    assert set(threading.enumerate()) <= before


def test_a_reward_above_perfect_is_refused_and_perfect_is_named() -> None:
    with pytest.raises(
        InputError, match=r"returned 100.0 .*perfect is 1; required: at most"
    ) as told:
        optimize(metric=lambda example, output: 100.0 * (output == "right") or 100.0)
    assert "perfect=100" in str(told.value)
    assert "in a configuration host.perfect: 100" in str(told.value)
    scaled = optimize(
        metric=lambda example, output: Score(100.0 * (output == "right"), output), perfect=100.0
    )
    assert scaled.value == 100.0


def test_several_seeds_are_reported_with_their_spread(tmp_path: Path) -> None:
    result = optimize(seeds=3, directory=tmp_path / "run", budget=60)
    assert [run.seed for run in result.runs] == [0, 1, 2]
    assert all(run.rollouts <= 60 for run in result.runs)
    values = [run.value for run in result.runs]
    assert result.value == max(values)
    assert result.spread.mean == pytest.approx(sum(values) / 3)
    assert result.spread.std is not None
    alone = optimize(seed=1, budget=60)
    assert alone.curve == result.runs[1].curve
    kept = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    assert kept["spread"]["mean"] == result.spread.mean
    assert [run["seed"] for run in kept["runs"]] == [0, 1, 2]
    again = optimize(seeds=3, resume=tmp_path / "run", budget=60, program=lambda *_: "never asked")
    assert [run.curve for run in again.runs] == [run.curve for run in result.runs]


def test_several_seeds_that_were_interrupted_go_on(tmp_path: Path) -> None:
    calls = 0

    def interrupted(instruction: str, example: str) -> str:
        nonlocal calls
        calls += 1
        if calls == 80:
            raise KeyboardInterrupt
        return program(instruction, example)

    some = optimize(interrupted, seeds=3, directory=tmp_path / "run", budget=60)
    assert len(some.runs) == 2
    assert some.runs[-1].stopped == "it was interrupted"
    whole = optimize(seeds=3, resume=tmp_path / "run", budget=60)
    assert [run.curve for run in whole.runs] == [
        run.curve for run in optimize(seeds=3, budget=60).runs
    ]


def test_a_second_ctrl_c_does_not_spoil_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(instruction: str, example: str) -> str:
        if instruction != SEED:
            raise KeyboardInterrupt
        return program(instruction, example)

    save = OptimizationResult.save

    def impatient(result: OptimizationResult, root: Path) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        save(result, root)

    monkeypatch.setattr(OptimizationResult, "save", impatient)
    # A process in the background of a shell is started with Ctrl-C switched off.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = optimize(interrupted, directory=tmp_path / "run")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.stopped == "it was interrupted"
    assert (tmp_path / "run" / "result.json").is_file()


def test_the_pool_of_an_earlier_call_is_where_another_starts(tmp_path: Path) -> None:
    first = optimize(directory=tmp_path / "first")
    result = optimize(seed_instruction=seeds_with(tmp_path / "first", SEED), budget=60)
    assert result.value == 1.0
    assert result.best.text == first.best.text
    seeded = [event for event in result.log if event["event"] == "seeded"]
    assert seeded[0]["components"] == {"instruction": SEED}
    assert seeded[1]["components"] == dict(first.best.components)
    assert str(tmp_path / "first") in seeded[1]["origin"]


def test_an_instruction_must_hold_what_is_required_and_be_short_enough() -> None:
    def refused(**given: Any) -> set[str]:
        result = optimize(budget=60, patience=10, **given)
        return {event["rule"] for event in result.log if event["event"] == "proposed"} - {""}

    assert "too-long" in {rule.replace("_", "-") for rule in refused(max_tokens=12)}
    with pytest.raises(InputError, match=r"lacks \{question\}"):
        refused(required=["{question}"])


def test_copies_are_refused_unless_they_are_allowed() -> None:
    class Copier(Proposer):
        def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
            failure, parent = request.failures[0], request.parents[0].candidate
            return [Proposal.of(f"{parent.text} Know this: {failure.question.text}", parent)]

    long = [
        f"{text}, which is asked in many words so that no one takes it for chance."
        for text in TRAIN
    ]

    def answer(instruction: str, example: str) -> str:
        return "right" if "Know this" in instruction else "wrong"

    def best(**given: Any) -> str:
        result = optimize(answer, trainset=long, proposer=Copier(), budget=80, patience=3, **given)
        return result.best.text

    with pytest.warns(EvopromptWarning, match="refused .leak: the text copies"):
        assert best() == SEED
    assert "Know this" in best(refuse_copies=False)


@pytest.mark.report
@pytest.mark.parametrize("seeds", [1, 2])
def test_best_and_report_read_the_directory(
    seeds: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "run"
    result = optimize(directory=root, seeds=seeds)
    assert ended("best", root) == 0
    assert capsys.readouterr().out.strip() == result.best.text
    assert ended("report", root) == 0
    page = (root / "report.html").read_text(encoding="utf-8")
    assert HABITS[0] in page
    assert "perfect on the whole validation set" in page
    (root / "result.json").unlink()
    assert ended("best", root) == 2
    assert "required: one that has ended" in capsys.readouterr().err


def ended(*arguments: object) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(map(str, arguments)))
    return int(end.value.code or 0)


@pytest.mark.parametrize("said", ["the sum is NaN", "to Infinity and beyond", "half \ud83d"])
def test_whatever_a_program_says_is_kept_and_not_paid_for_twice(tmp_path: Path, said: str) -> None:
    made: list[str] = []

    def speaks(instruction: str, example: str) -> str:
        made.append(example)
        return said

    found = optimize(speaks, budget=60, directory=tmp_path / "out")
    assert found.rollouts == len(made)
    made.clear()
    assert optimize(speaks, budget=60, resume=tmp_path / "out").rollouts == found.rollouts
    assert not made


@pytest.mark.filterwarnings("ignore:the proposer failed")
def test_a_higher_budget_of_the_language_model_goes_on_where_it_was_spent(tmp_path: Path) -> None:
    class Paid(Teacher):
        most = 2

        def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
            if self.asked >= self.most:
                raise BudgetError("2 calls; the budget is 2")
            return super().propose(request)

    folder = tmp_path / "out"
    found = optimize(proposer=Paid(), directory=folder)
    richer = Paid()
    richer.most = 100
    resumed = optimize(proposer=richer, resume=folder)
    assert resumed.iterations > found.iterations
    assert richer.asked > 0
