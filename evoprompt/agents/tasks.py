"""Interfaces of tasks, which any host can train, and of hosts.

A task provides the questions, the tools, the protocol and the scoring; a host provides the trainer.
The core depends on neither: it loads both by their names in the configuration.
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
from evoprompt.support.calls import calling
from evoprompt.support.errors import InputError
from evoprompt.types import INSTRUCTION, TOOL, Question, Written

if TYPE_CHECKING:
    from evoprompt.engine import Engine
    from evoprompt.roles import ProposalRequest


@dataclass(frozen=True, slots=True)
class Trial:
    """One training run of one arm with one seed.

    Attributes:
        seed: seed of the trainer, the policy's sampling and the order of the questions.
        directory: folder for the trainer's checkpoints.
        budget: rollouts after which training ends, verification included.
        evaluate_every: rollouts between two evaluation points.
        resume: continue from the newest checkpoint in ``directory`` if there is one.
        policy: folder of ``TrainingJob.save`` to start from; None for the task's own policy.
        task: section of the configuration that names the task, from which further processes of a
            training build it again; empty if it was not built by its name.
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
        """Return the number of evaluations on validation, including before the first step.

        The evaluation at the end is included, too.
        """
        return math.ceil(self.budget / self.evaluate_every) + 1

    @property
    def policies(self) -> int:
        """Return the number of policies that are saved and tested in all."""
        return self.evaluations if self.keeps_policies else 1


class TrainingJob(Interface):
    """Policy in a trainer, ready to be trained."""

    @property
    def trainer(self) -> object:
        """Return the host's own trainer object, to which the engine is attached."""

    @property
    def render(self) -> Render:
        """Return the function that places the instruction in prompts, for ``attach``."""

    def train(self, engine: Engine, on_evaluation: Callable[[Evaluation], None]) -> None:
        """Train until ``engine.rollouts`` reaches the budget.

        ``on_evaluation`` is called at step 0, every ``evaluate_every`` rollouts and at the end with
        an evaluation of the current policy under ``engine.best`` on the validation split; it may
        call ``evaluate`` and ``save``. A resumed training continues from its newest checkpoint,
        engine included, and does not repeat earlier evaluations.
        """

    def save(self, folder: Path) -> None:
        """Write the current policy to ``folder`` in the host's format, completely or not at all."""

    def stop(self) -> None:
        """Make a running ``train`` save a checkpoint and return after the current step."""

    def evaluate(self, instruction: Written, split: str) -> Evaluation:
        """Evaluate the policy under ``instruction``, decoding greedily.

        Training continues as it would have without the evaluation.
        """


@dataclass(frozen=True, slots=True)
class Method:
    """Alternative method of answering a task's questions, for comparison with its agent.

    Attributes:
        title: its name in tables.
        instruction: its instruction, in every prompt.
        begin: function that begins an episode, from the tokenizer of the policy, the limits of an
            episode, the question and the instruction.
    """

    title: str
    instruction: str
    begin: Callable[[ChatTokenizer, Limits, Question, str], EpisodeSteps]


class Policy(ABC):
    """Model that answers the questions of a task with any method, decoding greedily."""

    @property
    def name(self) -> str:
        """Return the name of the model, or its folder, which identifies it in later evaluations."""
        return str(getattr(self.tokenizer, "name_or_path", ""))

    @property
    @abstractmethod
    def tokenizer(self) -> ChatTokenizer:
        """Return the tokenizer of the policy."""

    @property
    @abstractmethod
    def limits(self) -> Limits:
        """Return the limits of an episode."""

    @abstractmethod
    def answer(self, plays: Sequence[EpisodeSteps], call: CallMany) -> list[Episode]:
        """Return the episodes of ``plays``, in order; ``call`` returns results of their calls."""


class Task(Component, BankOwner, ABC):
    """Tools, questions and scoring of a task, for any host.

    Subclass it. ``seed_instructions``, ``questions`` and ``score`` are required; all else has a
    default that suits a model which calls tools in the form of its own chat template.

    Attributes:
        main_metric: metric by which evaluations are compared: ``REWARD``, or a name in
            ``Score.metrics``.
        seed_instructions: instructions from which evolution starts, and which the static arm keeps;
            never empty.
        tools: typed functions with docstrings, which the policy may call.
        limits: limits of an episode.
        evolving_tools: names of the tools with descriptions that evolve together with the
            instruction; the first descriptions are the docstrings.
        required: strings that every instruction must contain, such as protocol tags.
        placement: placement of the instruction in a prompt.
        host_defaults: settings by host, such as its model, if the configuration does not set them.
        methods: alternatives to the agent for answering its questions, for ``evoprompt eval``.
        call_seconds: core seconds of a call of its tools, for estimates of time.
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
        """Return the questions of ``"train"``, ``"validation"``, ``"test"`` or any further split.

        Raises:
            InputError: the split does not exist.
        """

    @abstractmethod
    def score(self, episode: Episode, question: Question) -> Score:
        """Score ``episode`` by the text of the policy, never by the prompt.

        Not called for episodes that ended as ``"failed"``.
        """

    def check(self, probe: bool = False) -> None:
        """Check that the task has seed instructions.

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
        """Return the function that places an instruction in the prompt of a question."""
        return ShowsTools(PLACEMENTS[self.placement])

    @property
    def seeds(self) -> Sequence[Written]:
        """Return the seed instructions, each with the descriptions of the tools that evolve.

        Raises:
            InputError: an evolving tool does not exist.
        """
        if not self.evolving_tools:
            return self.seed_instructions
        all_descriptions = Tools(self.tools).descriptions
        unknown = [name for name in self.evolving_tools if name not in all_descriptions]
        if unknown:
            raise InputError(
                f"the description of {', '.join(unknown)} is to evolve; required: tools of the "
                f"task, {', '.join(all_descriptions) or 'which has none'}; correct evolving_tools"
            )
        descriptions = {f"{TOOL}{name}": all_descriptions[name] for name in self.evolving_tools}
        return [{INSTRUCTION: seed, **descriptions} for seed in self.seed_instructions]

    def protocol(self, tokenizer: ChatTokenizer) -> Protocol:
        """Return the protocol of calls and answers; without tools, all text is the answer.

        Raises:
            InputError: the tokenizer does not suit the protocol.
        """
        return ToolCallProtocol(tokenizer) if self.tools else AnswerProtocol()

    def caller(self, split: str) -> ToolCaller:
        """Return the caller of the tools in episodes of the questions of ``split``."""
        return Tools(self.tools)

    def sampler(self, model: Any, tokenizer: Any, temperature: float) -> Sampler | None:
        """Return a sampler of ``model`` for one play that is faster than ``transformers``.

        None, as by default, if there is none; the model is then sampled like any model.
        """
        return None

    def needs(self) -> Sequence[Need]:
        """Return requirements on this machine beyond those of a host, such as files or a server.

        Called before the start, and possibly repeatedly.
        """
        return ()


def limits_of(
    task: Task,
    max_calls: int | None = None,
    turn_tokens: int | None = None,
) -> Limits:
    """Return the limits of an episode of ``task``; without tools, it makes no calls.

    Args:
        task: the task; its limits apply in place of None.
        max_calls: maximum number of tool calls.
        turn_tokens: maximum number of tokens of an action.
    """
    callable_ = bool(task.tools) or type(task).caller is not Task.caller
    limits = task.limits if callable_ else replace(task.limits, calls=0)
    return Limits(
        calls=limits.calls if max_calls is None else max_calls,
        turn_tokens=turn_tokens or limits.turn_tokens,
        observation_tokens=limits.observation_tokens,
    )


def require_questions(task: Task) -> None:
    """Require that each split that a run uses has questions.

    Raises:
        InputError: a split has none.
    """
    for split in ("train", "validation", "test"):
        if not len(task.questions(split)):
            raise InputError(
                f"{type(task).__name__} has no question in the split {split!r}; required: at least "
                "one each to train, validate and test; add some"
            )


class EpisodeRunner:
    """Runner of the episodes of a task.

    Args:
        task: task of the questions.
        tokenizer: tokenizer of the policy.
        limits: limits of an episode; by default those of the task.
        variables: variables of the chat template, such as ``enable_thinking``, for every prompt and
            between the turns.

    Attributes:
        agent: agent that plays the episodes.
        tokenizer: tokenizer of the policy, with the variables.
        schemas: schemas of the tools, as the chat template shows them to the policy.

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
        """Return a chat message, or plain text for a policy without a chat template."""
        if self.tokenizer.chat_template is None:
            return question.text
        return [{"role": "user", "content": question.text}]

    def encode(self, prompt: Prompt) -> list[int]:
        """Return the tokens of a prompt, including the tools that the chat template shows."""
        return encode(self.tokenizer, prompt, self.schemas)

    def play(self, prompt: Prompt) -> EpisodeSteps:
        """Return the steps of one episode after a prompt that contains the instruction."""
        return self.agent.play(self.encode(prompt))


CUT_IN_THOUGHT = "It still thought at the limit of tokens of a turn, and so gave no answer."
"""Feedback of an episode without an answer, if the task has no feedback."""


def scored(task: Task, episode: Episode, question: Question) -> Score | None:
    """Return the task's score of an episode; None for a failed one, which is no evidence.

    ``tool_calls`` and ``response_tokens`` are among its metrics, for any task.

    Raises:
        InputError: the task does not return a score, or one of its numbers is not finite.
    """
    if episode.end == "failed":
        return None
    with calling("task", task):
        score = task.score(episode, question)
    if not isinstance(score, Score):
        raise InputError(
            f"{type(task).__name__}.score returned a {type(score).__name__} for question "
            f"{question.id!r}; required: an evoprompt.agents.tasks.Score; change the task"
        )
    for name, value in (("reward", score.reward), *score.metrics.items()):
        if not math.isfinite(value):
            raise InputError(
                f"{type(task).__name__}.score gave the {name} {value} for question "
                f"{question.id!r}; required: a finite number; leave out what was not measured"
            )
    usual = {
        "tool_calls": float(episode.tool_calls),
        "response_tokens": float(sum(episode.policy_mask)),
    }
    feedback = score.feedback or (CUT_IN_THOUGHT if episode.end == "cut in thought" else "")
    return replace(score, feedback=feedback, metrics={**usual, **score.metrics})


class Host(Component, ABC):
    """Trainer with settings, which trains any task that it supports."""

    role = "host"

    def plan(self, task: Task, trial: Trial) -> Plan:
        """Return the work and the requirements of ``trial``; empty if they are unknown beforehand.

        Load no weights, and write and download nothing.

        Raises:
            InputError: the host does not support the task, or its settings are wrong.
        """
        return Plan()

    @abstractmethod
    def prepare(self, task: Task, trial: Trial) -> TrainingJob:
        """Return the policy in the host's trainer, ready to be trained.

        Raises:
            InputError: the host does not support the task, or its settings are wrong.
        """


POLICY = "policy"
"""Subject of a need for the model of a task; a host that uses a server has a different model."""


@dataclass(frozen=True, slots=True)
class Need:
    """Requirement of a trial on its machine.

    Attributes:
        subject: its name in a word or two: ``"GPU"``, ``"model"``.
        text: description of the state of this machine.
        remedy: remedy if the requirement is not met; empty if it is met.
    """

    subject: str
    text: str
    remedy: str = ""

    @property
    def missing(self) -> bool:
        """Return whether the trial cannot run because the requirement is not met."""
        return bool(self.remedy)


SAMPLING = ("generation", "tools")
"""Parts of a step that a rollout outside of training needs."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Work and requirements of a trial, determined without loading a model.

    Attributes:
        figures: names and texts of facts about it, such as rollouts and tokens of a step.
        needs: requirements on this machine, met or not.
        rollouts_per_step: rollouts of a training step, which determine the number of generations
            of a run; None if unknown.
        isolated: whether each trial needs a separate process, because the GPU memory of its trainer
            is released only at the end of the process.
        rollouts_per_question: rollouts of one question in one step, over all its candidates; None
            if unknown.
        notices: messages for the user before the start, with remedies.
        iterations: maximum number of requests to the proposer if the host itself optimizes; None if
            an engine evolves.
        expected_iterations: expected number of requests to the proposer, if it is below
            ``iterations``; None if it is unknown.
        request: typical request to the proposer, for an estimate of its cost; None if an engine
            evolves.
        seconds: estimated seconds of a training step, by part; empty if unknown. A rollout outside
            of training takes only the parts :data:`SAMPLING`.
        gpus: number of GPUs that train; 0 for a CPU.
        evaluated: total number of questions of evaluations and tests.
    """

    figures: Sequence[tuple[str, str]] = ()
    needs: Sequence[Need] = ()
    rollouts_per_step: int | None = None
    isolated: bool = False
    rollouts_per_question: int | None = None
    notices: Sequence[str] = ()
    iterations: int | None = None
    expected_iterations: int | None = None
    request: ProposalRequest | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    gpus: int = 0
    evaluated: int = 0
