"""Conversations of a deployed model, with their rewards, as input of a proposer."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, TypeAdapter, ValidationError

from evoprompt.agents.tasks import Task
from evoprompt.components import BuildContext
from evoprompt.experiments.config import PROPOSER_SYNTAX, RunConfig
from evoprompt.experiments.eventfile import read_events
from evoprompt.experiments.frozen import proposer_of
from evoprompt.experiments.history import TrainingHistory, log_in
from evoprompt.experiments.tables import numbered_lines
from evoprompt.hosting.rows import text_of
from evoprompt.lm.budget import SpendTracker
from evoprompt.log.corpus import RolloutCorpus
from evoprompt.log.events import Event, Excerpt, Notice
from evoprompt.optimizer.data import items_of
from evoprompt.optimizer.failures import SHOWN
from evoprompt.optimizer.journal import Journal
from evoprompt.optimizer.options import OptimizeOptions
from evoprompt.optimizer.outcome import BudgetSpentError
from evoprompt.optimizer.writer import Writer
from evoprompt.plugins import build
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.screening import usable_seeds
from evoprompt.support.errors import InputError
from evoprompt.support.text import words_of
from evoprompt.support.validation import explain
from evoprompt.types import (
    INSTRUCTION,
    Assignment,
    CandidateStats,
    Question,
    TaskContext,
    Trajectory,
    Turn,
    Written,
)

REQUESTS = 4
"""Most requests to the proposer, each with as many failures as one of an optimization."""


_EXCERPTS = TypeAdapter(list[Excerpt])


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


class _Line(BaseModel, frozen=True, allow_inf_nan=False):
    """Line of a file of traces; its other fields are not read.

    Attributes:
        question: its text; by default the first message of a user.
        messages: of the conversation, as OpenAI has them.
        answer: the last answer, if the messages do not have it.
        expected: answers that would have been right.
        reward: the higher the better, 1 for perfect.
        feedback: of a person or a metric.
    """

    question: str = ""
    messages: list[dict[str, Any]] = []
    answer: str = ""
    expected: Annotated[list[str], BeforeValidator(_as_list)] = []
    reward: float | None = None
    feedback: str = ""


class Traces(NamedTuple):
    """Conversations of a folder or a file.

    Attributes:
        scored: conversations with a reward, oldest first.
        unscored: number of conversations without a reward.
        deployed: the best instruction in the folder; None for a file.
    """

    scored: Sequence[Excerpt]
    unscored: int = 0
    deployed: Mapping[str, str] | None = None


def read_traces(source: Path) -> Traces:
    """Return the conversations of a gateway, of any training with a log of events, or of a JSONL.

    Raises:
        InputError: there is nothing to read, or a line is no conversation.
    """
    log = log_in(source) if source.is_dir() else None
    if log is not None:
        history = TrainingHistory.read(log)
        best = history.candidates.get(history.best)
        excerpts = [excerpt for event in read_events(log) for excerpt in event.get("excerpts", ())]
        return Traces(_EXCERPTS.validate_python(excerpts), 0, best.components if best else None)
    if source.is_dir() or not (lines := list(_lines(source))):
        raise InputError(
            f"--from-traces is {source}; required: the folder of a gateway or a log_dir, with its "
            "events, or a JSONL of conversations; check the path"
        )
    scored = [line for line in lines if line is not None]
    return Traces(scored, len(lines) - len(scored))


def _lines(file: Path) -> Iterator[Excerpt | None]:
    for number, line in numbered_lines(file):
        try:
            row = _Line.model_validate(json.loads(line))
        except (ValueError, RecursionError) as error:
            reason = explain(error, _Line) if isinstance(error, ValidationError) else error
            raise InputError(
                f"{file}:{number} is no conversation ({reason}); required: an object such as "
                '{"question": "2 + 2?", "answer": "5", "reward": 0, "feedback": "it is 4"}'
            ) from error
        question, turns = _conversation(row)
        if not question or not turns:
            raise InputError(
                f"{file}:{number} lacks a question or an answer; required: both, or 'messages' of "
                "a user and an assistant"
            )
        right, reward = " or ".join(row.expected), row.reward
        yield None if reward is None else Excerpt("", question, right, reward, turns, row.feedback)


def _conversation(row: _Line) -> tuple[str, tuple[Turn, ...]]:
    """Return the first question, and the model's messages, each with the messages after it."""
    question, turns = row.question, list[list[str]]()
    for message in row.messages:
        text = text_of(message.get("content"))
        if message.get("role") == "assistant":
            calls = message.get("tool_calls")
            turns.append([f"{text}{json.dumps(calls) if calls else ''}", ""])
        elif turns:
            turns[-1][1] += text
        elif message.get("role") == "user":
            question = question or text
    if row.answer and (not turns or turns[-1][0] != row.answer):
        turns.append([row.answer, ""])
    return question, tuple(Turn(action, seen) for action, seen in turns)


def write_from(
    traces: Traces,
    first: Written,
    proposer: Proposer,
    options: OptimizeOptions,
    setting: TaskContext,
    emit: Callable[[Event], None],
) -> list[dict[str, str]]:
    """Return the proposals from failures in ``traces`` that screening accepts.

    The failures are sorted by reward, lowest first, and then by time, latest first, with one per
    question.

    Args:
        traces: what happened.
        first: the instruction to improve.
        proposer: gets up to :data:`REQUESTS` requests.
        options: required strings, and the reward below which a conversation is a failure.
        setting: context of the task for the proposer.
        emit: takes the events.

    Raises:
        InputError: there is no failure, or no proposal can be tried.
    """
    failed: dict[str, Excerpt] = {}
    latest = list(reversed(traces.scored))
    latest.sort(key=lambda excerpt: excerpt.reward)
    for excerpt in latest:
        if excerpt.reward < options.perfect:
            failed.setdefault(excerpt.question, excerpt)
    if not failed:
        raise InputError(
            f"of {len(traces.scored)} conversations with a reward none has less than "
            f"{options.perfect:g}, and {traces.unscored} have none; required: failures to learn "
            "from"
        )
    successes = {
        excerpt.question: excerpt for excerpt in traces.scored if excerpt.reward >= options.perfect
    }
    failures = list(failed.values())[: REQUESTS * SHOWN]
    items = items_of(list(map(_question, failures)), "traces")
    texts = [item.question.text for item in items]
    writer = Writer(proposer, Journal(), emit, options, setting, texts)
    parent = writer.seed(usable_seeds([first], 1, options.required)[0])
    components = list(parent.components)
    component = INSTRUCTION if INSTRUCTION in components else components[0]

    def trajectory(question: Question, excerpt: Excerpt) -> Trajectory:
        assignment = Assignment(question.id, question, parent, 1, question.id)
        return Trajectory(
            assignment, excerpt.reward, turns=excerpt.turns, feedback=excerpt.feedback
        )

    corpus = RolloutCorpus(
        [trajectory(_question(excerpt), excerpt) for excerpt in traces.scored], options.perfect
    )
    proposed_texts: list[dict[str, str]] = []
    coverage = f"{len(failures)} of {len(failed)} failures in {len(traces.scored)} conversations"
    emit(Notice(0, f"the proposer reads {coverage}; {traces.unscored} have no reward"))
    for step in range(math.ceil(len(failures) / SHOWN)):
        part = slice(step * SHOWN, (step + 1) * SHOWN)
        pairs = list(zip(items[part], failures[part], strict=True))
        request = ProposalRequest(
            options.proposals,
            [CandidateStats(parent, 0.0)],
            [trajectory(item.question, excerpt) for item, excerpt in pairs],
            (),
            Random(f"{options.seed}/traces/{step}"),
            step,
            component=component,
            successes=[
                trajectory(item.question, successes[excerpt.question])
                for item, excerpt in pairs
                if excerpt.question in successes
            ],
            corpus=corpus,
        )
        try:
            proposals = writer.write(request, [item.guarded for item, _ in pairs])
        except BudgetSpentError as spent:
            emit(Notice(step, str(spent)))
            break
        proposed_texts += [dict(proposal.components) for proposal in proposals]
    if not proposed_texts:
        raise InputError(
            f"nothing that was written of the traces can be tried: {writer.complaint}; required: "
            "a writer that works; remove the cause"
        )
    return proposed_texts


def _question(excerpt: Excerpt) -> Question:
    return Question(excerpt.question, excerpt.question, (excerpt.answer,) * bool(excerpt.answer))


def starting_from(
    config: RunConfig, traces: Traces, spending: SpendTracker, emit: Callable[[Event], None]
) -> RunConfig:
    """Return the optimization with arms that start from the deployed instruction and proposals.

    With a file of traces, the task's own instruction takes the place of the deployed one.

    Args:
        config: its last arm has the proposer.
        traces: what happened.
        spending: records the costs of the proposer.
        emit: takes the events.

    Raises:
        InputError: see :func:`write_from`; or the arm has no proposer.
    """
    *_, arm = config.arms
    task: Task = build("task", config.task)
    section = config.engine_of(arm)
    if section.proposer is None:
        raise InputError("--from-traces is given without a writer; required: --lm MODEL")
    first = traces.deployed or task.seeds[0]
    options = OptimizeOptions(required=tuple(task.required))
    setting = TaskContext(reward=words_of(type(task).score), trained=False)
    context = BuildContext(task, None, spending, syntax=PROPOSER_SYNTAX)
    proposer = proposer_of(section, context)
    proposals = write_from(traces, first, proposer, options, setting, emit)
    texts = (first if isinstance(first, str) else dict(first), *proposals)
    return config.starting_from(dict.fromkeys(config.arms, texts))
