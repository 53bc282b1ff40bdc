"""Conversations of a model in use, with their rewards, as what a writer of instructions reads."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, TypeAdapter, ValidationError

from evoprompt.agents.tasks import Task
from evoprompt.components import BuildContext
from evoprompt.experiments.config import PROPOSER_SYNTAX, RunConfig
from evoprompt.experiments.eventfile import read_events
from evoprompt.experiments.frozen import proposer_of
from evoprompt.experiments.history import History, log_in
from evoprompt.experiments.questions import numbered_lines
from evoprompt.hosting.rows import text_of
from evoprompt.lm.budget import SpendTracker
from evoprompt.log.events import Event, Excerpt, Notice
from evoprompt.optimizer.data import Item, items_of
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
"""Most requests to the writer, each with as many failures as one of an optimization."""


_EXCERPTS = TypeAdapter(list[Excerpt])


def _several(given: Any) -> Any:
    return given if isinstance(given, list | tuple) else [given]


class _Line(BaseModel):
    """A line of a file of traces; what else it holds is not read.

    Attributes:
        question: what was asked; by default the first message of a user.
        messages: of the conversation, as OpenAI has them.
        answer: what was said last, where the messages do not tell.
        expected: answers that would have been right.
        reward: the higher the better, 1 for perfect.
        feedback: of a person or a metric.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    question: str = ""
    messages: list[dict[str, Any]] = []
    answer: str = ""
    expected: Annotated[list[str], BeforeValidator(_several)] = []
    reward: float | None = None
    feedback: str = ""


class Traces(NamedTuple):
    """What a folder or a file holds.

    Attributes:
        scored: conversations with a reward, oldest first.
        unscored: how many have none.
        deployed: the best instruction of what wrote the folder; None of a file.
    """

    scored: Sequence[Excerpt]
    unscored: int = 0
    deployed: Mapping[str, str] | None = None


def read_traces(source: Path) -> Traces:
    """The conversations of a gateway, of any training with a log of events, or of a JSONL.

    Raises:
        InputError: there is nothing to read, or a line is none.
    """
    log = log_in(source) if source.is_dir() else None
    if log is not None:
        history = History.read(log)
        best = history.candidates.get(history.best)
        shown = [one for event in read_events(log) for one in event.get("excerpts", ())]
        return Traces(_EXCERPTS.validate_python(shown), 0, best.components if best else None)
    if source.is_dir() or not (lines := list(_lines(source))):
        raise InputError(
            f"--from-traces is {source}; required: the folder of a gateway or a log_dir, with its "
            "events, or a JSONL of conversations; check the path"
        )
    found = [line for line in lines if line is not None]
    return Traces(found, len(lines) - len(found))


def _lines(file: Path) -> Iterator[Excerpt | None]:
    for number, line in numbered_lines(file):
        try:
            row = _Line.model_validate(json.loads(line))
        except (ValueError, RecursionError) as error:
            told = explain(error, _Line) if isinstance(error, ValidationError) else error
            raise InputError(
                f"{file}:{number} is no conversation ({told}); required: an object such as "
                '{"question": "2 + 2?", "answer": "5", "reward": 0, "feedback": "it is 4"}'
            ) from error
        asked, turns = _conversation(row)
        if not asked or not turns:
            raise InputError(
                f"{file}:{number} lacks a question or an answer; required: both, or 'messages' of "
                "a user and an assistant"
            )
        right, reward = " or ".join(row.expected), row.reward
        yield None if reward is None else Excerpt("", asked, right, reward, turns, row.feedback)


def _conversation(row: _Line) -> tuple[str, tuple[Turn, ...]]:
    """What was asked first, and what the model said, each with what followed."""
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
    return question, tuple(Turn(said, seen) for said, seen in turns)


def write_from(
    traces: Traces,
    first: Written,
    proposer: Proposer,
    options: OptimizeOptions,
    setting: TaskContext,
    emit: Callable[[Event], None],
) -> list[dict[str, str]]:
    """What ``proposer`` writes of failures in ``traces`` and screening lets through.

    The worst come first, of equals the latest, and of each question one.

    Args:
        traces: what happened.
        first: the instruction to improve on.
        proposer: is asked up to :data:`REQUESTS` times.
        options: what a text must hold, and below which reward something has failed.
        setting: what the proposer is told of the task.
        emit: takes the events.

    Raises:
        InputError: nothing has failed, or nothing that was written can be tried.
    """
    failed: dict[str, Excerpt] = {}
    latest = list(reversed(traces.scored))
    latest.sort(key=lambda one: one.reward)
    for one in latest:
        if one.reward < options.perfect:
            failed.setdefault(one.question, one)
    if not failed:
        raise InputError(
            f"of {len(traces.scored)} conversations with a reward none has less than "
            f"{options.perfect:g}, and {traces.unscored} have none; required: failures to learn "
            "from"
        )
    well = {one.question: one for one in traces.scored if one.reward >= options.perfect}
    shown = list(failed.values())[: REQUESTS * SHOWN]
    asked = items_of(
        [Question("", one.question, (one.answer,) * bool(one.answer)) for one in shown], "traces"
    )
    texts = [item.question.text for item in asked]
    writer = Writer(proposer, Journal(), emit, options, setting, texts)
    parent = writer.seed(usable_seeds([first], 1, options.required)[0])
    components = list(parent.components)
    component = INSTRUCTION if INSTRUCTION in components else components[0]

    def trajectory(item: Item, one: Excerpt) -> Trajectory:
        question = item.question
        assignment = Assignment(question.id, question, parent, 1, question.id)
        return Trajectory(assignment, one.reward, turns=one.turns, feedback=one.feedback)

    found: list[dict[str, str]] = []
    told = f"{len(shown)} of {len(failed)} failures in {len(traces.scored)} conversations"
    emit(Notice(0, f"the writer reads {told}; {traces.unscored} have no reward"))
    for step in range(math.ceil(len(shown) / SHOWN)):
        part = slice(step * SHOWN, (step + 1) * SHOWN)
        pairs = list(zip(asked[part], shown[part], strict=True))
        request = ProposalRequest(
            options.proposals,
            [CandidateStats(parent, 0.0)],
            [trajectory(item, one) for item, one in pairs],
            (),
            Random(f"{options.seed}/traces/{step}"),
            step,
            component=component,
            successes=[trajectory(i, well[o.question]) for i, o in pairs if o.question in well],
        )
        try:
            written = writer.write(request, [item.guarded for item, _ in pairs])
        except BudgetSpentError as spent:
            emit(Notice(step, str(spent)))
            break
        found += [dict(one.components) for one in written]
    if not found:
        raise InputError(
            f"nothing that was written of the traces can be tried: {writer.complaint}; required: "
            "a writer that works; remove the cause"
        )
    return found


def starting_from(
    config: RunConfig, traces: Traces, spending: SpendTracker, emit: Callable[[Event], None]
) -> RunConfig:
    """The same optimization, whose arms start from what was deployed and what is written of it.

    Of a file of traces the first is the task's own instruction.

    Args:
        config: its last arm has the writer.
        traces: what happened.
        spending: takes what the writer costs.
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
    written = write_from(traces, first, proposer, options, setting, emit)
    texts = (first if isinstance(first, str) else dict(first), *written)
    return config.starting_from(dict.fromkeys(config.arms, texts))
