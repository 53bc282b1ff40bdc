"""A task, a proposer, a trainer and its adapter that need no model: a whole run takes a second.

The policy's chance of a right answer grows with training, and faster under an instruction that
holds helpful sentences. Everything a real host does for a run is here: checkpoints with the
engine's state, resuming, stopping after a step, evaluation.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from pydantic import BaseModel, Field

from evoprompt import Proposer
from evoprompt.agents import Episode
from evoprompt.agents.tasks import (
    Evaluation,
    Host,
    MainMetric,
    Need,
    Plan,
    Score,
    Task,
    TrainingJob,
    Trial,
)
from evoprompt.components import BuildContext, Component
from evoprompt.engine import Engine
from evoprompt.hookspecs import hookimpl
from evoprompt.hosting.attachment import AttachRequest
from evoprompt.hosting.prompts import Render, system_message
from evoprompt.plugins import named
from evoprompt.roles import ProposalRequest
from evoprompt.support.storage import STATE_FILE, checkpoints, load_state, mend, saving
from evoprompt.types import (
    Assignment,
    Candidate,
    Proposal,
    Question,
    Trajectory,
    Turn,
    Written,
)

SEED = "Answer the question inside <answer> and </answer>."
HELPFUL = (
    "Search for every hop before you answer.",
    "Use the words of the last passage in the next search.",
    "Keep the answer to a single name.",
)
USELESS = (
    "Be polite.",
    "Think about the weather first.",
    "Repeat the question in full.",
    "Answer without searching when you feel sure.",
)
TRAINING = [Question(f"q{n}", f"Who is the parent of P{n}?", (f"P{n + 1}",)) for n in range(40)]


class FakeSettings(BaseModel, extra="forbid"):
    """What can be chosen about the fake task."""

    seeds: list[str] = [SEED]
    learning_rate: float | None = None
    """Of the host, where the configuration is silent."""


HOLDS_AT = 7


class FakeHostSettings(BaseModel, extra="forbid"):
    """What can be chosen about the fake trainer.

    Attributes:
        learning_rate: gain in skill a step.
        pause: seconds a step sleeps.
        hold: file that must be there before training goes on after step 7.
        save_every: steps between two checkpoints.
        kill_at: step at which the process kills itself; once only.
        fail_at: step at which training raises.
        interrupt_at: step at which the process sends itself a Ctrl-C.
        collapse_at: step after which the policy has forgotten everything.
    """

    learning_rate: float = Field(0.02, ge=0)
    pause: float = 0.0
    hold: Path | None = None
    save_every: int = Field(5, ge=1)
    kill_at: int | None = None
    fail_at: int | None = None
    interrupt_at: int | None = None
    collapse_at: int | None = None


class FakeTask(Task):
    """Families that nobody has"""

    Settings = FakeSettings
    main_metric = MainMetric("solved", "share solved")
    required = ("<answer>", "</answer>")

    @classmethod
    def build(cls, settings: FakeSettings, context: BuildContext) -> FakeTask:
        """Makes the task as ``settings`` describe it."""
        return cls(settings)

    def __init__(self, settings: FakeSettings) -> None:
        self.seed_instructions: Sequence[str] = settings.seeds
        if settings.learning_rate is not None:
            own = {"learning_rate": settings.learning_rate}
            self.host_defaults = {"fake": own, "planned": own}

    def questions(self, split: str) -> Sequence[Question]:
        """The same in every split."""
        return TRAINING

    def score(self, episode: Episode, question: Question) -> Score:
        """1 for the parent."""
        solved = float(episode.answer in question.answers)
        return Score(solved, metrics={"solved": solved})

    def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
        """Always the same."""
        return ["no search"]


class FakeHost(Host):
    """Learns a number"""

    Settings = FakeHostSettings

    @classmethod
    def build(cls, settings: FakeHostSettings, context: BuildContext) -> FakeHost:
        """Makes the host."""
        return cls(settings)

    def __init__(self, settings: FakeHostSettings) -> None:
        self.settings = settings

    def prepare(self, task: Task, trial: Trial) -> TrainingJob:
        """A fake trainer."""
        return FakeTrainingJob(trial, self.settings)


class PlannedHost(FakeHost):
    """The same, planned: it knows beforehand that seed 1 cannot run on this machine."""

    def plan(self, task: Task, trial: Trial) -> Plan:
        """The machine has a model and, but for seed 1, an abacus; with seed 2 it is slow."""
        needs = [Need("model", "all here")]
        if trial.seed == 1:
            needs.append(Need("abacus", "none found", "buy one"))
        slow = ("this is slow; buy another",) if trial.seed == 2 else ()
        figures = (("rollouts a step", "8"),)
        return Plan(
            figures,
            tuple(needs),
            8,
            rollouts_per_question=4,
            notices=slow,
            seconds={"generation": 20.0, "tools": 4.0, "update": 12.0},
            gpus=4,
            evaluated=300,
        )

    def prepare(self, task: Task, trial: Trial) -> TrainingJob:
        """It would take too long."""
        raise AssertionError("a heavy trainer was built")


class FakeTrainer:
    """What the engine is attached to."""

    engine: Engine | None = None


def _read_skill(folder: Path) -> float:
    skill = json.loads((folder / "skill.json").read_text(encoding="utf-8"))
    assert isinstance(skill, float)
    return skill


class FakeTrainingJob:
    """Learns a number."""

    def __init__(self, trial: Trial, settings: FakeHostSettings) -> None:
        self.trainer = FakeTrainer()
        self.render: Render = system_message
        self._trial = trial
        self._settings = settings
        self._rng = random.Random(trial.seed)
        self._skill = 0.1 if trial.policy is None else _read_skill(trial.policy)
        self._stopping = False

    def save(self, folder: Path) -> None:
        """Writes the number."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "skill.json").write_text(json.dumps(self._skill), encoding="utf-8")

    def stop(self) -> None:
        """Saves and returns after this step."""
        self._stopping = True

    def train(self, engine: Engine, on_evaluation: Callable[[Evaluation], None]) -> None:
        """Steps of 8 questions with 5 rollouts each."""
        assert self.trainer.engine is engine
        self._restore(engine)
        if engine.step == 0:
            on_evaluation(self.evaluate(engine.best.text, "validation"))
        while engine.rollouts < self._trial.budget:
            before = engine.rollouts
            self._mishap(engine.step)
            if engine.evolution_due:
                engine.evolve(self._roll_out)
            engine.tell(self._roll_out(engine.ask(self._rng.sample(TRAINING, 8), 5)))
            self._skill += self._settings.learning_rate * (
                0.3 + _help(engine.selection.leader.text)
            )
            if self._settings.collapse_at is not None and engine.step > self._settings.collapse_at:
                self._skill = 0.01
            time.sleep(self._settings.pause)
            self._hold(engine.step)
            every = self._trial.evaluate_every
            if engine.rollouts // every > before // every:
                on_evaluation(self.evaluate(engine.best.text, "validation"))
            if engine.step % self._settings.save_every == 0 or self._stopping:
                self._save(engine)
            if self._stopping:
                return

    def evaluate(self, written: Written, split: str) -> Evaluation:
        """The chances themselves, without a draw."""
        instruction = Candidate.of(written).instruction
        chance = self._chance(instruction)
        return Evaluation(
            value=chance,
            by_kind={kin: chance / far for far, kin in enumerate(("child", "cousin"), 1)},
            metrics={"tool_calls": 1 + _help(instruction)},
        )

    def _chance(self, instruction: str) -> float:
        return min(0.95, self._skill * (0.5 + _help(instruction)))

    def _roll_out(self, assignments: Sequence[Assignment]) -> Sequence[Trajectory]:
        return [
            Trajectory(
                assignment,
                float(self._rng.random() < self._chance(assignment.candidate.text)),
                rollout,
                (Turn("<answer>P1</answer>"),),
                {
                    "tool_calls": 1 + _help(assignment.candidate.text),
                    "response_tokens": 12 + 20 * _help(assignment.candidate.text),
                },
                "the parent is another one",
            )
            for assignment in assignments
            for rollout in range(assignment.rollouts)
        ]

    def _hold(self, step: int) -> None:
        while step == HOLDS_AT and (file := self._settings.hold) and not file.exists():
            time.sleep(0.01)

    def _mishap(self, step: int) -> None:
        marker = self._trial.directory.parent / "killed"
        if step == self._settings.kill_at and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if step == self._settings.fail_at:
            raise RuntimeError(f"the accelerator is on fire {os.environ.get('FAKE_ADDRESS', '')}")
        if step == self._settings.interrupt_at and not self._trial.resume:
            signal.raise_signal(signal.SIGINT)

    def _save(self, engine: Engine) -> None:
        folder = self._trial.directory / f"checkpoint-{engine.step}"
        with saving(folder, engine.state_dict()):
            state = json.dumps({"skill": self._skill, "rng": self._rng.getstate()})
            (folder / "trainer.json").write_text(state, encoding="utf-8")

    def _restore(self, engine: Engine) -> None:
        mend(self._trial.directory, "checkpoint-")
        folders = checkpoints(self._trial.directory, "checkpoint-")
        if not (self._trial.resume and folders):
            return
        state = json.loads((folders[-1] / "trainer.json").read_text(encoding="utf-8"))
        version, internal, gauss = state["rng"]
        self._skill = state["skill"]
        self._rng.setstate((version, tuple(internal), gauss))
        engine.load_state_dict(load_state(folders[-1] / STATE_FILE))


def _help(instruction: str) -> float:
    good = sum(sentence in instruction for sentence in HELPFUL)
    bad = sum(sentence in instruction for sentence in USELESS)
    return max(0.0, 0.4 * good - 0.2 * bad)


class FakeProposer(Proposer):
    """Adds a sentence or takes one away."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """As many as are wished for."""
        made = []
        for _ in range(request.count):
            parent = request.rng.choice(list(request.parents)).candidate
            sentences = [s for s in (*HELPFUL, *USELESS) if s in parent.text]
            sentences.append(request.rng.choice((*HELPFUL, *USELESS)))
            if len(sentences) > 2 and request.rng.random() < 0.3:
                sentences.remove(request.rng.choice(sentences))
            text = " ".join([SEED, *dict.fromkeys(sentences)])
            made.append(Proposal.of(text, parent, rationale="the failures never searched twice"))
        return made


class MuteProposer(Proposer):
    """Has no idea, ever."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Nothing."""
        return []


@dataclass
class FakeAttachment:
    """The engine in the fake trainer."""

    trainer: FakeTrainer
    engine: Engine

    prompts = None

    def detach(self) -> None:
        """Takes it out again."""
        self.trainer.engine = None


@hookimpl
def evoprompt_attach(request: AttachRequest) -> FakeAttachment | None:
    """Attaches to a fake trainer."""
    if not isinstance(request.trainer, FakeTrainer):
        return None
    request.trainer.engine = request.engine
    return FakeAttachment(request.trainer, request.engine)


@hookimpl
def evoprompt_components() -> list[tuple[str, type[Component]]]:
    """The task, its hosts and its proposers."""
    return [
        named("fake", FakeTask),
        named("fake", FakeHost),
        named("planned", PlannedHost),
        named("fake", FakeProposer),
        named("mute", MuteProposer),
    ]


@hookimpl
def evoprompt_commands() -> list[typer.Typer]:
    """One command."""
    app = typer.Typer(name="fake", help="Commands of the fake task.")

    @app.command()
    def hello() -> None:
        """Says hello."""
        typer.echo("hello from the fake task")

    @app.callback()
    def group() -> None:
        """Keeps `hello` a command of its own."""

    return [app]
