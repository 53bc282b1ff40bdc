"""What a task must offer so that any host can train it, and what a host must.

A task brings the questions, the tools, the protocol and the scoring; a host brings the trainer. The
core knows none of them: it finds both by their names in the configuration.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from typing import Protocol as Interface

from pydantic import JsonValue

from evoprompt.agents import (
    Agent,
    AnswerProtocol,
    CallMany,
    ChatTokenizer,
    Episode,
    EpisodeSteps,
    Limits,
    Protocol,
    Sampler,
    ToolCaller,
    ToolCallProtocol,
    Tools,
    encode,
)
from evoprompt.agents.tokenizer import TemplateVariables
from evoprompt.components import Component
from evoprompt.hosting.prompts import PLACEMENTS, Placement, Prompt, Render, ShowsTools
from evoprompt.log.evaluation import REWARD as REWARD
from evoprompt.log.evaluation import Evaluation as Evaluation
from evoprompt.log.evaluation import MainMetric as MainMetric
from evoprompt.log.evaluation import Score as Score
from evoprompt.proposers.bank import BankOwner
from evoprompt.support.errors import InputError
from evoprompt.types import INSTRUCTION, TOOL, Question, Written

if TYPE_CHECKING:
    from evoprompt.engine import Engine


@dataclass(frozen=True, slots=True)
class Trial:
    """One training run of one arm with one seed.

    Attributes:
        seed: seeds the trainer, the policy's sampling and the order of the questions.
        directory: where the trainer may write its checkpoints.
        budget: rollouts after which training ends, verification included.
        evaluate_every: rollouts between two evaluation points.
        resume: continue from the newest checkpoint in ``directory`` if there is one.
        policy: folder that ``TrainingJob.save`` wrote, to start from; None for the task's own.
        task: the section of a configuration that names the task, by which other processes of a
            training build it again; empty where it was not built by its name.
        keeps_policies: whether the policy of each evaluation is kept and tested.
    """

    seed: int
    directory: Path
    budget: int
    evaluate_every: int
    resume: bool = False
    policy: Path | None = None
    task: Mapping[str, JsonValue] = field(default_factory=dict)
    keeps_policies: bool = False

    @property
    def evaluations(self) -> int:
        """Number of evaluations on validation, before the first step and at the end included."""
        return math.ceil(self.budget / self.evaluate_every) + 1

    @property
    def policies(self) -> int:
        """Number of policies that are saved and tested in all."""
        return self.evaluations if self.keeps_policies else 1


class TrainingJob(Interface):
    """A policy in a trainer, ready to be trained."""

    @property
    def trainer(self) -> object:
        """The host's own trainer object, to which the engine is attached."""
        ...

    @property
    def render(self) -> Render:
        """Places the instruction in the task's prompts; to be handed to ``attach``."""
        ...

    def train(self, engine: Engine, on_evaluation: Callable[[Evaluation], None]) -> None:
        """Trains until ``engine.rollouts`` reaches the budget.

        ``on_evaluation`` is called at step 0, every ``evaluate_every`` rollouts and at the end with
        an evaluation of the current policy under ``engine.best`` on the validation split; it may
        call ``evaluate`` and ``save``. A resumed
        training goes on where its newest checkpoint was saved, the engine included, and does not
        repeat what was evaluated before.
        """
        ...

    def save(self, folder: Path) -> None:
        """Writes the current policy to ``folder``, whole or not at all, in the host's format."""
        ...

    def stop(self) -> None:
        """Asks a running ``train`` to save a checkpoint and return after the current step."""
        ...

    def evaluate(self, written: Written, split: str) -> Evaluation:
        """Evaluates the policy under ``written``, decoding greedily.

        Training goes on as it would have without.
        """
        ...


@dataclass(frozen=True, slots=True)
class Method:
    """Another way to answer the questions of a task than its agent, to be compared with it.

    Attributes:
        title: in tables.
        instruction: in every prompt.
        begin: one episode, from the tokenizer of the policy, what an episode may use, the question
            and the instruction.
    """

    title: str
    instruction: str
    begin: Callable[[ChatTokenizer, Limits, Question, str], EpisodeSteps]


class Policy(ABC):
    """A model that answers the questions of a task by any method, decoding greedily."""

    @property
    def name(self) -> str:
        """Name of the model, or its folder; an evaluation that is continued knows it by that."""
        return str(getattr(self.tokenizer, "name_or_path", ""))

    @property
    @abstractmethod
    def tokenizer(self) -> ChatTokenizer:
        """Of the policy."""

    @property
    @abstractmethod
    def limits(self) -> Limits:
        """What an episode may use."""

    @abstractmethod
    def answer(self, plays: Sequence[EpisodeSteps], call: CallMany) -> list[Episode]:
        """The episodes of ``plays``, in order; ``call`` answers their calls."""


class Task(Component, BankOwner, ABC):
    """A tool, its questions and how an episode is scored; whichever host trains it.

    Subclass it. ``seed_instructions``, ``questions`` and ``score`` are required; all else has a
    default that suits a model which calls tools in the way of its own chat template.

    Attributes:
        main_metric: by which number evaluations are compared: ``REWARD``, or a name in
            ``Score.metrics``.
        seed_instructions: where evolution starts, and what the static arm keeps; never empty.
        tools: typed functions with docstrings, which the policy may call.
        limits: what an episode may use.
        evolving_tools: names of the tools whose descriptions evolve beside the instruction; the
            first ones are the docstrings.
        required: substrings every instruction must hold, such as protocol tags.
        placement: where the instruction goes in a prompt.
        host_defaults: settings by host, such as its model, where the configuration is silent.
        methods: other ways to answer its questions than the agent's, for ``evoprompt eval``.
        call_seconds: of a core, that a call of its tools takes, for estimates of time.
    """

    role = "task"
    main_metric: MainMetric = REWARD
    seed_instructions: Sequence[str]
    tools: Sequence[Callable[..., object]] = ()
    evolving_tools: Sequence[str] = ()
    limits: Limits = Limits(calls=4, turn_tokens=256, observation_tokens=256)
    required: Sequence[str] = ()
    placement: Placement = "append"
    host_defaults: Mapping[str, Mapping[str, JsonValue]] = MappingProxyType({})
    methods: Mapping[str, Method] = MappingProxyType({})
    call_seconds: float = 0.0

    @abstractmethod
    def questions(self, split: str) -> Sequence[Question]:
        """The questions of ``"train"``, ``"validation"``, ``"test"`` and any further split.

        Raises:
            InputError: there is no such split.
        """

    @abstractmethod
    def score(self, episode: Episode, question: Question) -> Score:
        """What ``episode`` is worth; it reads what the policy said, never the prompt.

        Not asked of episodes that ended as ``"failed"``.
        """

    def check(self, probe: bool = False) -> None:
        """Makes sure that it has instructions to start from.

        Raises:
            InputError: it has none.
        """
        if not hasattr(self, "seed_instructions"):
            raise InputError(
                f"{type(self).__name__} has no seed_instructions; required: at least one text; "
                "write them down in the class"
            )

    @property
    def render(self) -> Render:
        """Places an instruction in the prompt of a question."""
        return ShowsTools(PLACEMENTS[self.placement])

    @property
    def seeds(self) -> Sequence[Written]:
        """The seed instructions, each with the descriptions of the tools that evolve.

        Raises:
            InputError: a tool is to evolve that there is not.
        """
        if not self.evolving_tools:
            return self.seed_instructions
        found = Tools(self.tools).descriptions
        unknown = [name for name in self.evolving_tools if name not in found]
        if unknown:
            raise InputError(
                f"the description of {', '.join(unknown)} is to evolve; required: tools of the "
                f"task, {', '.join(found) or 'which has none'}; correct evolving_tools"
            )
        descriptions = {f"{TOOL}{name}": found[name] for name in self.evolving_tools}
        return [{INSTRUCTION: seed, **descriptions} for seed in self.seed_instructions]

    def protocol(self, tokenizer: ChatTokenizer) -> Protocol:
        """How the policy calls tools and answers; without tools, all it says is its answer.

        Raises:
            InputError: the tokenizer does not suit it.
        """
        return ToolCallProtocol(tokenizer) if self.tools else AnswerProtocol()

    def caller(self, split: str) -> ToolCaller:
        """What answers the calls in episodes of the questions of ``split``."""
        return Tools(self.tools)

    def sampler(self, model: Any, tokenizer: Any, temperature: float) -> Sampler | None:
        """Samples actions of ``model`` for one play, faster than ``transformers`` would.

        None, as by default, where it cannot; the model is then sampled as any other.
        """
        return None

    def needs(self) -> Sequence[Need]:
        """What it needs of this machine besides what a host does, such as files or a server.

        Asked before anything starts, and more than once.
        """
        return ()


def limits_of(
    task: Task,
    max_calls: int | None = None,
    turn_tokens: int | None = None,
) -> Limits:
    """What an episode of ``task`` may use; it makes no calls where there is nothing to call.

    Args:
        task: whose limits hold where None is given.
        max_calls: most tool calls.
        turn_tokens: most tokens of an action.
    """
    callable_ = bool(task.tools) or type(task).caller is not Task.caller
    own = task.limits if callable_ else replace(task.limits, calls=0)
    return Limits(
        calls=own.calls if max_calls is None else max_calls,
        turn_tokens=turn_tokens or own.turn_tokens,
        observation_tokens=own.observation_tokens,
    )


def require_questions(task: Task) -> None:
    """Makes sure that each split that a run uses has questions.

    Raises:
        InputError: one has none.
    """
    for split in ("train", "validation", "test"):
        if not len(task.questions(split)):
            raise InputError(
                f"{type(task).__name__} has no question in the split {split!r}; required: at least "
                "one each to train, validate and test; add some"
            )


class EpisodeRunner:
    """Begins the episodes of a task.

    Args:
        task: whose questions to play.
        tokenizer: of the policy.
        limits: what an episode may use; those of the task if not given.
        variables: of the chat template, such as ``enable_thinking``; in every prompt and between
            the turns.

    Attributes:
        agent: plays the episodes.
        tokenizer: of the policy, with the variables.
        schemas: of the tools, as the chat template shows them to the policy.

    Raises:
        InputError: the tokenizer does not suit the task's protocol or tools.
    """

    def __init__(
        self,
        task: Task,
        tokenizer: ChatTokenizer,
        limits: Limits | None = None,
        variables: Mapping[str, JsonValue] | None = None,
    ) -> None:
        used = limits_of(task) if limits is None else limits
        if variables:
            tokenizer = TemplateVariables(tokenizer, variables)
        self.agent = Agent(task.protocol(tokenizer), tokenizer, used)
        self.schemas = Tools(task.tools).schemas if task.tools and used.calls else []
        self.tokenizer = tokenizer

    def prompt(self, question: Question) -> Prompt:
        """A chat message, or plain text for a policy that was never taught to chat."""
        if self.tokenizer.chat_template is None:
            return question.text
        return [{"role": "user", "content": question.text}]

    def encode(self, prompt: Prompt) -> list[int]:
        """The tokens of a prompt, the tools that the chat template shows included."""
        return encode(self.tokenizer, prompt, self.schemas)

    def play(self, prompt: Prompt) -> EpisodeSteps:
        """The steps of one episode after a prompt in which the instruction has been placed."""
        return self.agent.play(self.encode(prompt))


CUT_IN_THOUGHT = "It still thought at the limit of tokens of a turn, and so gave no answer."
"""Feedback of an episode that never answered, where the task has none of its own."""


def scored(task: Task, episode: Episode, question: Question) -> Score | None:
    """The task's score of an episode, None for one that broke, which says nothing of the policy.

    ``tool_calls`` and ``response_tokens`` are among its metrics, for any task.

    Raises:
        InputError: what the task returns is no score, or has no finite reward.
    """
    if episode.end == "failed":
        return None
    found = task.score(episode, question)
    if not isinstance(found, Score):
        raise InputError(
            f"{type(task).__name__}.score returned a {type(found).__name__} for question "
            f"{question.id!r}; required: an evoprompt.agents.tasks.Score; change the task"
        )
    for name, value in (("reward", found.reward), *found.metrics.items()):
        if not math.isfinite(value):
            raise InputError(
                f"{type(task).__name__}.score gave the {name} {value} for question "
                f"{question.id!r}; required: a finite number; leave out what was not measured"
            )
    usual = {
        "tool_calls": float(episode.tool_calls),
        "response_tokens": float(sum(episode.policy_mask)),
    }
    feedback = found.feedback or (CUT_IN_THOUGHT if episode.end == "cut in thought" else "")
    return replace(found, feedback=feedback, metrics={**usual, **found.metrics})


class Host(Component, ABC):
    """A trainer, configured: it trains any task that it supports."""

    role = "host"

    def plan(self, task: Task, trial: Trial) -> Plan:
        """What ``trial`` would do and need; empty for a host that does not know beforehand.

        Loads no weights, and writes and downloads nothing.

        Raises:
            InputError: the host does not support the task, or its settings are wrong.
        """
        return Plan()

    @abstractmethod
    def prepare(self, task: Task, trial: Trial) -> TrainingJob:
        """The policy in the host's trainer, ready to be trained.

        Raises:
            InputError: the host does not support the task, or its settings are wrong.
        """


POLICY = "policy"
"""Subject of a need for the model that comes with a task; a host that asks a server has its own."""


@dataclass(frozen=True, slots=True)
class Need:
    """Something a trial needs of the machine it runs on.

    Attributes:
        subject: what it is, in a word or two: ``"GPU"``, ``"model"``.
        text: what was found.
        remedy: what to do about it where it is missing; empty where it is there.
    """

    subject: str
    text: str
    remedy: str = ""

    @property
    def missing(self) -> bool:
        """Whether the trial cannot run for the lack of it."""
        return bool(self.remedy)


SAMPLING = ("generation", "tools")
"""Parts of a step that a rollout takes which is not trained on."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a trial would do and need, found without loading a model.

    Attributes:
        figures: what to know beforehand, such as rollouts and tokens a step: names and texts.
        needs: what it needs of this machine, whether it is there or not.
        rollouts_per_step: rollouts of a training step, from which follows how often a run
            evolves; None where it is not known.
        isolated: whether each trial needs a process of its own, as what its trainer holds of a GPU
            is given back only when the process ends.
        rollouts_per_question: of one question in one step, which its candidates share out; None
            where it is not known.
        several: whether a question can have several candidates in a step.
        notices: what a person should know before it starts, with what to do about it.
        iterations: requests to the proposer at most, where the host optimizes by itself; None where
            an engine evolves.
        seconds: of a training step, by part, an estimate; empty where it is not known. A rollout
            outside of training takes the parts :data:`SAMPLING` alone.
        gpus: that train; 0 for a CPU.
        evaluated: questions that evaluations and tests ask in all.
    """

    figures: Sequence[tuple[str, str]] = ()
    needs: Sequence[Need] = ()
    rollouts_per_step: int | None = None
    isolated: bool = False
    rollouts_per_question: int | None = None
    several: bool = True
    notices: Sequence[str] = ()
    iterations: int | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    gpus: int = 0
    evaluated: int = 0
