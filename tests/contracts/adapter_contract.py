"""The promises every adapter keeps, as tests that run against a real host.

An adapter's integration tests subclass :class:`AdapterContract` and provide the ``host`` fixture:
a tiny real trainer behind the four methods of :class:`ContractHost`.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev

import pytest
from contract_runs import (
    ADMITS_NOBODY,
    EVOLVING,
    FAILING,
    ONE_BASELINE,
    SIDE_BY_SIDE,
    STATIC,
    ContractHost,
    EngineSpec,
    Job,
    Run,
    groups,
    proposed,
)

import evoprompt
from evoprompt import EvopromptWarning
from evoprompt.hosting.binding import FEW


@contextmanager
def ignored_libraries() -> Iterator[None]:
    """Ignore what the libraries warn of each other, as pyproject.toml does, in ``pytest.warns``.

    It records every warning and issues those again that it does not expect, in the name of another
    module: TRL 1.16 under transformers 5.24 reads names that are deprecated there.
    """
    libraries = r"(trl|transformers|torch|datasets|accelerate)(\.|$)"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=libraries)
        yield


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self, said: list[str]) -> None:
        super().__init__()
        self.said = said

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@pytest.mark.filterwarnings("ignore:of the rollouts of the verification")  # silent questions
class AdapterContract:
    """Inherit from it and define the ``host`` fixture; most tests look at one training."""

    score = "`"
    """What a writer is told of the score begins with this."""

    separates_baselines = True
    """Whether each candidate of a question may have a baseline of its own."""

    @pytest.fixture(scope="class")
    @classmethod
    def host(cls) -> ContractHost:
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def said(cls) -> list[str]:
        """What a person was told of the training ``evolved``."""
        return []

    @pytest.fixture(scope="class")
    @classmethod
    def evolved(
        cls, host: ContractHost, said: list[str], tmp_path_factory: pytest.TempPathFactory
    ) -> Run:
        """Evolves and evaluates; nobody scores two of its questions."""
        # Weights by the last steps alone change their mind sooner.
        fickle = replace(EVOLVING, settings={**EVOLVING.settings, "weights": "window"})
        job = Job(fickle, steps=5, silent=("q3", "q6"), evaluate_every=1)
        lines = Lines(said)
        logging.getLogger("evoprompt").addHandler(lines)  # a host may take those of the root away
        with pytest.MonkeyPatch.context() as patch:
            # So short a training shows nobody to be better; who leads changes.
            patch.setattr(evoprompt.Engine, "best", property(lambda self: self.selection.leader))
            run = cls.done(host, job, tmp_path_factory.mktemp("evolved"))
        logging.getLogger("evoprompt").removeHandler(lines)
        return run

    @pytest.fixture(scope="class")
    @classmethod
    def static(cls, host: ContractHost, tmp_path_factory: pytest.TempPathFactory) -> Run:
        """Has one candidate from its beginning to its end."""
        return cls.done(host, Job(STATIC, 5, evaluate_every=3), tmp_path_factory.mktemp("static"))

    @pytest.fixture(scope="class")
    @classmethod
    def home(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """Where ``whole`` leaves its checkpoints."""
        return tmp_path_factory.mktemp("home")

    @pytest.fixture(scope="class")
    @classmethod
    def whole(cls, host: ContractHost, home: Path) -> Run:
        """Saves and is never interrupted."""
        return cls.done(host, Job(EVOLVING, steps=6, save_every=2), home)

    @pytest.fixture(autouse=True)
    def _place(self, host: ContractHost, tmp_path: Path) -> None:
        self._host, self.folder = host, tmp_path

    def train(self, job: Job, folder: str = "") -> Run:
        """Does the job in a folder of the test."""
        return self.done(self._host, job, self.folder / folder)

    @staticmethod
    def done(host: ContractHost, job: Job, directory: Path) -> Run:
        with warnings.catch_warnings():
            if job.silent:  # the warning that its failures deserve has a test of its own
                warnings.filterwarnings("ignore", r"\d+ of \d+ rollouts of step \d+ have no")
            run = host.run(job, directory)
        assert run is not None
        return run

    def test_a_group_shares_one_question_and_one_candidate(self, evolved: Run) -> None:
        self.check_groups(evolved)

    def test_rollouts_without_a_reward_are_warned_of_counted_and_a_metric(self) -> None:
        with pytest.warns(EvopromptWarning) as caught, ignored_libraries():
            run = self._host.run(Job(STATIC, steps=2, silent=("q0",)), self.folder)
        assert run is not None
        failed = [sum(one.reward is None for one in step) for step in run.told]
        assert failed == [self._host.group, 0]
        (message,) = [
            str(one.message)
            for one in caught
            if isinstance(one.message, EvopromptWarning) and "no reward" in str(one.message)
        ]
        assert message.startswith(
            f"{failed[0]} of {len(run.told[0])} rollouts of step 1 have no reward, the first "
        )
        notices = [event["message"] for event in run.events if event["event"] == "notice"]
        assert message in notices
        (counts,) = [
            values for name, values in run.reported.items() if name.endswith("/rollouts_failed")
        ]
        assert counts[-1] == failed[0]

    def test_a_finished_training_that_is_started_again_trains_nothing(self) -> None:
        """Also with fewer steps, and in a copy of its folder, where more steps are trained."""
        first = self.train(Job(EVOLVING, steps=3, save_every=1), "first")
        shutil.copytree(self.folder / "first", self.folder / "copy")
        for steps in (3, 2):
            job = Job(EVOLVING, steps=steps, save_every=1, resume=True)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "the training had finished at step 3 of")
                again = self.train(job, "first")
            assert again.told == []
            assert again.weights == first.weights
            assert [event for event in again.events if event["event"] == "step_completed"] == [
                event for event in first.events if event["event"] == "step_completed"
            ]
        more = Job(EVOLVING, steps=4, save_every=1, resume=True)
        copied = self.train(more, "copy")
        resumed = self.train(more, "first")
        assert len(copied.told) == 1
        assert copied.weights == resumed.weights != first.weights

    def test_groups_hold_together_across_processes(self) -> None:
        run = self.train(Job(EVOLVING, steps=4, processes=2))
        assert len(run.batches[0]) // 2 % self._host.group, "no group straddles the two processes"
        assert run.engines_used == 1
        assert all(alive == run.populations[0] for alive in run.populations)
        assert not run.populations or set(run.populations[0]) & proposed(run)
        self.check_groups(run)
        self.check_rewards(run)
        assert any(event["event"] == "verified" for event in run.events)

    def check_groups(self, run: Run) -> None:
        for batch in run.batches:
            for group in groups(batch, self._host.group):
                assert len({(row.question, row.instruction) for row in group}) == 1
        self.check_rows(run)

    def check_rows(self, run: Run) -> None:
        for batch, told in zip(run.batches, run.told, strict=True):
            assert [(row.question, row.instruction) for row in batch] == [
                (t.question.id, t.candidate.text) for t in told
            ]
        used = {row.instruction for batch in run.batches for row in batch}
        assert used & proposed(run), "no evolved instruction was ever used"

    @pytest.mark.parametrize(
        ("engine", "candidates", "groups_each"), [(SIDE_BY_SIDE, 2, 2), (ONE_BASELINE, 4, 1)]
    )
    def test_several_candidates_of_a_question_share_its_rollouts(
        self, engine: EngineSpec, candidates: int, groups_each: int
    ) -> None:
        """Grouping by candidate, each has a baseline of its own; by question, all have one."""
        if engine is SIDE_BY_SIDE and not self.separates_baselines:
            trainer, built = self._host.trainer(self.folder), engine.build()
            before = self._host.fingerprint(trainer)
            with pytest.raises(evoprompt.EvopromptError, match="required: grouping 'question'"):
                evoprompt.attach(trainer, built)
            assert self._host.fingerprint(trainer) == before
            return
        run = self.train(Job(engine, steps=5, silent=("q3",)))
        self.check_rows(run)
        self.check_rewards(run)
        self.check_advantages(run, self._host.group // groups_each)
        each = self._host.group // candidates
        most = 0
        for told in run.told:
            for start in range(0, len(told), self._host.group):
                question = told[start : start + self._host.group]
                assert len({t.question.id for t in question}) == 1
                assert len({t.assignment.group for t in question}) == groups_each
                rows = [
                    question[place : place + each] for place in range(0, self._host.group, each)
                ]
                assert all(len({t.assignment.id for t in row}) == 1 for row in rows)
                most = max(most, len({t.candidate.id for t in question}))
        assert most == candidates

    def test_seven_seeds_all_train_and_none_is_pruned_before_it_is_measured(self) -> None:
        words = ("be", "brief", "think", "then", "answer")  # all policies know these
        seeds = (*words, "be brief", "think then")
        seven = replace(EVOLVING, seeds=seeds, settings={})  # nothing is set
        run = self.train(Job(seven, steps=6))
        instructions = {row.instruction for batch in run.batches for row in batch}
        assert instructions == set(seeds)
        assert [event for event in run.events if event["event"] in ("pruned", "evolved")] == []

    def test_one_static_candidate_changes_nothing(self, static: Run) -> None:
        untouched = self.train(Job(None, steps=5, evaluate_every=3))
        assert any(untouched.losses)
        self.check_alike(static, untouched)

    def test_verification_leaves_no_trace(self, static: Run) -> None:
        verified = self.train(Job(ADMITS_NOBODY, steps=5, evaluate_every=3))
        assert any(event["event"] == "verified" for event in verified.events)
        assert not any(event.get("admitted") for event in verified.events)
        self.check_alike(verified, static)

    def check_alike(self, run: Run, other: Run) -> None:
        assert run.losses == other.losses
        assert run.weights == other.weights
        assert run.generators == other.generators
        assert run.batches == other.batches
        assert self.of_the_host(run) == self.of_the_host(other)

    def of_the_host(self, run: Run) -> dict[str, Sequence[float]]:
        """The host's own metrics, without those that measure time."""
        return {
            name: values
            for name, values in run.reported.items()
            if "evoprompt/" not in name
            and not any(w in name for w in ("time", "second", "runtime"))
        }

    def test_attributed_rewards_are_those_trained_on(self, evolved: Run) -> None:
        self.check_rewards(evolved)
        self.check_advantages(evolved, self._host.group)
        assert len({row.reward for batch in evolved.batches for row in batch}) > 2

    def check_rewards(self, run: Run) -> None:
        for batch, told in zip(run.batches, run.told, strict=True):
            assert [t.reward for t in told] == pytest.approx(
                [row.reward for row in batch], abs=1e-6
            )

    def check_advantages(self, run: Run, size: int) -> None:
        """``size`` rows after each other share a baseline."""
        compared = 0
        for batch, told in zip(run.batches, run.told, strict=True):
            for rows, start in zip(groups(batch, size), range(0, len(told), size), strict=True):
                rewards = [t.reward for t in told[start : start + size]]
                scored = [reward for reward in rewards if reward is not None]
                if len(scored) < size:
                    continue
                expected = [(r - fmean(scored)) / (stdev(scored) + 1e-4) for r in scored]
                assert [row.advantage for row in rows] == pytest.approx(expected, abs=1e-3)
                compared += any(expected)
        assert compared

    def test_a_rollout_nobody_scored_is_told_without_a_reward(self, evolved: Run) -> None:
        told = [trajectory for step in evolved.told for trajectory in step]
        assert {t.question.id for t in told if t.reward is None} == {"q3", "q6"}
        assert all(t.reward is None for t in told if t.question.id in ("q3", "q6"))
        assert [
            event["unscored"] for event in evolved.events if event["event"] == "step_completed"
        ] == [sum(t.reward is None for t in step) for step in evolved.told]

    def test_each_evaluation_asks_under_the_best_candidate_and_is_an_event(
        self, evolved: Run
    ) -> None:
        assert all(asked == best for asked, best in evolved.evaluated)
        assert len({best for _, best in evolved.evaluated}) > 1
        texts = {
            event["candidate"]: " ".join(event["components"].values())
            for event in evolved.events
            if event["event"] in ("seeded", "proposed")
        }
        logged = [event for event in evolved.events if event["event"] == "evaluated"]
        asked = [instruction for instruction, _ in evolved.evaluated]
        each = len(asked) // len(logged)
        assert len(asked) == each * len(logged)
        assert [texts[event["candidate"]] for event in logged for _ in range(each)] == asked
        assert all(event["main_metric"]["name"] in event["metrics"] for event in logged)
        assert all(event["split"] == "validation" for event in logged)

    def test_verification_uses_the_current_weights(self) -> None:
        last_step = {**EVOLVING.settings, "evolve_every": 3, "verify_questions": 12}
        job = Job(replace(EVOLVING, settings=last_step), steps=4)
        sound = self.train(job, "sound")
        ruined = self.train(replace(job, ruin_in=4), "ruined")
        assert ruined.batches[:3] == sound.batches[:3]
        assert self.verified_mean(ruined) < self.verified_mean(sound) / 2

    def verified_mean(self, run: Run) -> float:
        return fmean(event["mean"] for event in run.events if event["event"] == "verified")

    def test_what_candidates_answered_in_verification_is_kept_to_read(self, evolved: Run) -> None:
        """Also of those that were refused."""
        verified, shown = set[str](), set[str]()
        spoke: list[bool] = []
        known = {event["candidate"] for event in evolved.events if event["event"] == "seeded"}
        for event in evolved.events:
            if event["event"] == "verified" and not event["parent"] and event["scored"]:
                verified.add(event["candidate"])
            if event["event"] == "evolved":
                known.update(event["admitted"])
            for one in event.get("excerpts", ()):
                if one["candidate"] not in known:
                    assert one["turns"]
                    spoke.append(any(turn["action"] for turn in one["turns"]))
                    shown.add(one["candidate"])
        assert shown == verified != set()
        assert sum(spoke) > len(spoke) / 2  # not all of them: a policy may end its turn at once

    def test_a_killed_run_resumes_as_if_nothing_had_happened(self, whole: Run) -> None:
        job = Job(EVOLVING, steps=6, save_every=2)
        assert self._host.run(replace(job, kill_in=6), self.folder) is None
        resumed = self.train(replace(job, resume=True))
        assert resumed.events == whole.events
        assert resumed.told == whole.told[4:]
        assert resumed.batches == whole.batches[4:]
        assert resumed.weights == whole.weights

    @pytest.mark.usefixtures("whole")
    def test_resuming_without_engine_state_says_so_and_starts_fresh(self, home: Path) -> None:
        self._host.forget_engine(home)
        (home / "events.jsonl").unlink()
        with pytest.warns(UserWarning, match="population starts afresh"), ignored_libraries():
            resumed = self.done(self._host, Job(EVOLVING, steps=8, save_every=2, resume=True), home)
        assert any("population starts afresh" in e.get("message", "") for e in resumed.events)
        assert [e["step"] for e in resumed.events if e["event"] == "step_completed"] == [1, 2]

    def test_the_hosts_own_reporter_shows_the_metrics_and_what_became_of_the_generations(
        self, evolved: Run
    ) -> None:
        ours = {
            name.split("evoprompt/")[1]: values
            for name, values in evolved.reported.items()
            if "evoprompt/" in name
        }
        assert set(ours) == set(FEW)
        assert len(ours) == 7
        assert len(ours["population_size"]) >= 5
        assert max(ours["population_size"]) > 2
        admitted = [len(e["admitted"]) for e in evolved.events if e["event"] == "evolved"]
        assert ours["generations"][-1] == len(admitted) > 0
        assert ours["admitted_total"][-1] == sum(admitted) > 0
        assert ours["generations_failed"][-1] == 0
        unscored = sum(e["unscored"] for e in evolved.events if e["event"] == "step_completed")
        assert ours["rollouts_failed"][-1] == unscored > 0

    def test_rollouts_without_a_reward_are_a_notice_and_in_the_last_line(
        self, evolved: Run, said: list[str]
    ) -> None:
        noticed = [e["message"] for e in evolved.events if e["event"] == "notice"]
        assert any(re.match(r"\d+ of \d+ rollouts of step \d+ have no reward", m) for m in noticed)
        assert re.search(r"training rollouts without a reward, failed: \d+ of \d+", said[-1])

    def test_a_person_is_told_in_a_line_what_goes_on(self, evolved: Run, said: list[str]) -> None:
        first, *generations, last = said
        assert (
            "2 instructions; evolves every 2 steps until the end; a generation takes at most"
            in first
        )
        ended = [event for event in evolved.events if event["event"] == "evolved"]
        assert len(generations) == len(ended) > 1
        for line, event in zip(generations, ended, strict=True):
            assert line.startswith(f"step {event['step']}: ")
            count = rf" {len(event['admitted'])} admitted, {event['rollouts']:,} rollouts"
            failed = r"( \(failed: [1-9]\d* of \d+, first because .+\))?"
            assert re.search(rf"{count}{failed}, best now c\d", line)
        assert last.startswith(f"ended at step 5: {len(ended)} generations, ")

    def test_a_training_in_which_every_generation_failed_says_so(self) -> None:
        everything = replace(FAILING, settings={**FAILING.settings, "metrics": "all"})
        with pytest.warns(evoprompt.EvopromptWarning) as warned, ignored_libraries():
            run = self.train(Job(everything, steps=5))
        failed = sum(event["event"] == "evolved" for event in run.events)
        assert self.last_reported(run, "generations_failed") == failed > 1
        assert self.last_reported(run, "proposer_failures") == failed
        assert self.last_reported(run, "admitted_total") == 0
        message = f"training has ended and nothing evolved: all of {failed} generations failed"
        ours = [w for w in warned if issubclass(w.category, evoprompt.EvopromptWarning)]
        assert str(ours[-1].message).startswith(message)
        assert run.events[-1]["message"].startswith(message)

    def last_reported(self, run: Run, name: str) -> float:
        """The last number of the engine that the host's reporter has under this name."""
        (values,) = (
            values for found, values in run.reported.items() if found.endswith(f"evoprompt/{name}")
        )
        return values[-1]

    def test_detach_restores_the_trainer_and_frees_the_engine(self) -> None:
        trainer, second = (self._host.trainer(self.folder / name) for name in ("first", "second"))
        before, untouched = self._host.fingerprint(trainer), self._host.fingerprint(second)
        engine = EVOLVING.build()
        limits = engine.limits
        attachment = evoprompt.attach(trainer, engine)
        assert attachment.engine is engine
        assert self._host.fingerprint(trainer) != before
        assert f"{len(EVOLVING.seeds)} instructions, best c0" in repr(attachment)
        with pytest.raises(evoprompt.EvopromptError, match="already"):
            evoprompt.attach(trainer, STATIC.build())
        with pytest.raises(evoprompt.EvopromptError, match=r"the engine is attached to a .* alre"):
            evoprompt.attach(second, engine)
        assert self._host.fingerprint(second) == untouched
        attachment.detach()
        attachment.detach()
        assert self._host.fingerprint(trainer) == before
        assert engine.limits is limits
        evoprompt.attach(second, engine).detach()
        evoprompt.attach(trainer, STATIC.build()).detach()

    @pytest.mark.filterwarnings("ignore::evoprompt.support.errors.EvopromptWarning")
    def test_a_writer_is_told_of_the_prompt_the_score_and_the_room_and_shown_failures(self) -> None:
        """In the very fields that a language model is asked with."""
        notes = self.folder / "asked.jsonl"
        settings = {"accept": "not-worse"}
        spec = EngineSpec(seeds=("think first",), notes=notes, settings=settings)
        run = self.train(Job(spec, steps=17), "run")
        asked = [json.loads(line) for line in notes.read_text(encoding="utf-8").splitlines()]
        told = next(one for one in asked if "episodes" in one)
        assert told["instruction"] == "think first"
        assert told["count"] == "18"  # three for each free place
        prompt, _, score = told["setting"].partition("\n\nWhat the score rewards:\n")
        assert prompt.startswith("A prompt, with its place marked:\n")
        assert "[here stands the instruction]" in prompt
        assert "user: what is " in prompt
        assert score.startswith(self.score)
        assert re.match(r"at most \d+ tokens, about \d+ words; no longer than", told["length"])
        assert re.match(r"- the instruction above, score \d\.\d\d, measured \d+", told["tried"])
        episodes = re.findall(r"^Episode \d\nQuestion: (.*)$", told["episodes"], re.MULTILINE)
        failed = {
            one.question.text
            for step in run.told[:13]
            for one in step
            if one.reward is not None and one.reward < 0.5
        }
        different = min(4, len(failed))
        assert different > 1
        assert len(set(episodes[:different])) == different <= len(episodes) <= 4
        for line in f"{told['episodes']}\n{told['solved']}".splitlines():
            known = (
                "Episode ",
                "Instead of ",
                "Question: ",
                "Correct answer: ",
                "Feedback: ",
                "Agent",
            )
            assert not line or line.startswith(known), "something of a chat template is left"
