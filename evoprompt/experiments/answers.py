"""Evaluation that stores each answer as it arrives, continues where it stopped, and makes a table.

::

    FOLDER/
      evaluation.json     settings that must be equal when it is continued
      answers.jsonl       one line an answer, of all methods
      table.md table.json
      trajectories.html
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from evoprompt.agents import CallMany, ChatTokenizer, Episode, EpisodeSteps, Limits, encode
from evoprompt.agents.episode import Broken, Result
from evoprompt.agents.protocol import ToolCall
from evoprompt.agents.tasks import POLICY, EpisodeRunner, Method, Policy, Task, scored
from evoprompt.log.evaluation import value_of
from evoprompt.support.credentials import masked
from evoprompt.support.errors import EvopromptError, InputError
from evoprompt.support.storage import LOCK, LineFile, write_whole
from evoprompt.support.text import format_error
from evoprompt.types import Candidate, Question, Turn, Written

AGENT = "agent"
"""The method that a training trains: the task's own agent."""

PATIENCE = 20
"""Number of unscored questions among the last 40 at which an evaluation stops: the policy or the
tools must be down, even if some questions need neither."""

_SETTINGS = "evaluation.json"


class EvaluationStoppedError(EvopromptError, RuntimeError):
    """Too many questions could not be scored; the answers so far are stored."""


class RecordedAnswer(BaseModel, frozen=True, extra="forbid"):
    """Answer of a policy to a question, by one method.

    Attributes:
        method: name of the method.
        id: of the question.
        question: its text.
        expected: every answer that counts as right.
        turns: actions and observations.
        value: the task's main metric; None where it could not be scored.
        metrics: further metrics.
        error: reason why it could not be scored; empty if it was.
    """

    method: str
    id: str
    question: str
    expected: tuple[str, ...]
    turns: tuple[Turn, ...]
    value: float | None
    metrics: Mapping[str, float] = {}
    error: str = ""

    @classmethod
    def of(cls, method: str, task: Task, question: Question, episode: Episode) -> RecordedAnswer:
        """Return the answer in ``episode``."""
        score = scored(task, episode, question)
        return cls(
            method=method,
            id=question.id,
            question=question.text,
            expected=tuple(question.answers),
            turns=tuple(Turn(turn.action, turn.observation) for turn in episode.turns),
            value=None if score is None else value_of(score, task.main_metric),
            metrics={} if score is None else score.metrics,
            error=(episode.error or "it broke") if score is None else "",
        )


@dataclass(frozen=True, slots=True)
class QuestionKind:
    """Questions under one heading of the table.

    Attributes:
        name: of the kind of question.
        questions: of this kind; their ids are unique.
        digest: of all questions of the kind and their answers, also of those beyond a limit.
    """

    name: str
    questions: Sequence[Question]
    digest: str = ""


class EvaluationFolder:
    """The folder of an evaluation.

    Args:
        folder: of the evaluation; it need not exist.
        identity: settings that must be equal when it is continued, by name.

    Raises:
        InputError: the folder holds an evaluation of something else, or something else.
    """

    def __init__(self, folder: Path, identity: Mapping[str, str]) -> None:
        self.folder = folder
        self._identity = dict(identity)
        settings = folder / _SETTINGS
        if settings.is_file():
            self._identity = _continued(settings, identity)
        elif folder.exists() and (
            not folder.is_dir() or any(file.name != LOCK for file in folder.iterdir())
        ):
            raise InputError(
                f"--output is {folder}, which holds something else; required: a new folder, or "
                "that of an evaluation to continue"
            )
        self._file = LineFile(folder / "answers.jsonl")
        self._answers: dict[tuple[str, str], RecordedAnswer] = {}
        for number, line in enumerate(self._file, start=1):
            try:
                answer = RecordedAnswer.model_validate(json.loads(line))  # half characters, too
            except ValueError as error:
                raise InputError(
                    f"{folder / 'answers.jsonl'}:{number} is no answer; required: the file as it "
                    "was written; delete the line to ask its question again"
                ) from error
            self._answers[answer.method, answer.id] = answer

    def answers(self, method: str, questions: Sequence[Question]) -> list[RecordedAnswer]:
        """Return the stored answers to ``questions``."""
        keys = [(method, question.id) for question in questions]
        return [self._answers[key] for key in keys if key in self._answers]

    def todo(self, method: str, questions: Sequence[Question]) -> list[Question]:
        """Return the questions without a score; a failed answer gives none."""
        done = {answer.id for answer in self.answers(method, questions) if not answer.error}
        return [question for question in questions if question.id not in done]

    def run(
        self,
        methods: Mapping[str, Method],
        kinds: Sequence[QuestionKind],
        task: Task,
        policy: Policy,
        split: str,
        batch: int,
    ) -> Iterator[Sequence[RecordedAnswer]]:
        """Yield the answers to the questions without a score, ``batch`` questions at a time.

        Raises:
            EvaluationStoppedError: :data:`PATIENCE` of twice as many questions stayed unscored.
        """
        text = json.dumps(self._identity, indent=2, ensure_ascii=False)
        write_whole(self.folder / _SETTINGS, f"{text}\n")
        latest: deque[bool] = deque(maxlen=2 * PATIENCE)
        call = _tolerant(task.caller(split))
        for kind in kinds:
            for name, method in methods.items():
                todo = self.todo(name, kind.questions)
                for start in range(0, len(todo), batch):
                    questions = todo[start : start + batch]
                    plays = [
                        method.begin(policy.tokenizer, policy.limits, question, method.instruction)
                        for question in questions
                    ]
                    episodes = policy.answer(plays, call)
                    new_answers = [
                        RecordedAnswer.of(name, task, question, episode)
                        for question, episode in zip(questions, episodes, strict=True)
                    ]
                    self._store_answers(new_answers)
                    yield new_answers
                    latest.extend(bool(answer.error) for answer in new_answers)
                    if sum(latest) >= PATIENCE:
                        reason = next(
                            answer.error for answer in reversed(new_answers) if answer.error
                        )
                        raise EvaluationStoppedError(
                            f"{sum(latest)} of the last {len(latest)} questions could not be "
                            f"answered: {reason}; the answers so far are kept in {self.folder}; "
                            "fix the cause and run the same command again"
                        )

    def _store_answers(self, new_answers: Sequence[RecordedAnswer]) -> None:
        for answer in new_answers:
            line = json.dumps(answer.model_dump(mode="json"))  # half characters as escapes
            self._file.append(f"{line}\n".encode())
            self._answers[answer.method, answer.id] = answer


def methods_of(task: Task, instruction: Written) -> dict[str, Method]:
    """Return the task's agent under an instruction, and its other methods, by name."""

    def begin(
        tokenizer: ChatTokenizer, limits: Limits, question: Question, instruction: str
    ) -> EpisodeSteps:
        runner = EpisodeRunner(task, tokenizer, limits)
        return runner.play(task.render(runner.prompt(question), candidate))

    candidate = Candidate.of(instruction)
    return {AGENT: Method("Agent", candidate.text, begin), **task.methods}


def kinds_of(task: Task, split: str, limit: int | None) -> list[QuestionKind]:
    """Return the questions of ``split`` by their kind, ``limit`` of each.

    The kind is the one that :meth:`Task.score` gives for an empty episode.
    """
    questions_by_kind: dict[str, list[Question]] = {}
    for question in task.questions(split):
        kind = task.score(Episode([]), question).kind or split
        questions_by_kind.setdefault(kind, []).append(question)
    return [
        QuestionKind(kind, questions[:limit], _digest(questions))
        for kind, questions in sorted(questions_by_kind.items())
    ]


def identity_of(
    task: Task,
    kinds: Sequence[QuestionKind],
    methods: Mapping[str, Method],
    policy: Policy,
    split: str,
) -> dict[str, str]:
    """Return the settings that must be equal on continuation, by their names in messages.

    Args:
        task: the task of the questions.
        kinds: the questions.
        methods: by name.
        policy: the policy that is evaluated.
        split: of the questions.
    """
    prompt = EpisodeRunner(task, policy.tokenizer, policy.limits)
    question = kinds[0].questions[0]
    ids = encode(policy.tokenizer, prompt.prompt(question), prompt.schemas)
    return {
        "policy": policy.name,
        "split": split,
        **{need.subject: masked(need.text) for need in task.needs() if need.subject != POLICY},
        **{f"questions of {kind.name}": kind.digest for kind in kinds},
        **{f"instruction of {name}": method.instruction for name, method in methods.items()},
        "limits": str(policy.limits),
        "prompt format": str(policy.tokenizer.decode(ids, skip_special_tokens=False)),
    }


def _digest(questions: Sequence[Question]) -> str:
    text = json.dumps([(question.id, question.text, [*question.answers]) for question in questions])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _continued(settings: Path, identity: Mapping[str, str]) -> dict[str, str]:
    """Return the identity of the evaluation that ``settings`` began; check that it is equal."""
    try:
        before: dict[str, str] = json.loads(settings.read_text(encoding="utf-8"))
        pairs = {name: (before[name], identity[name]) for name in identity if name in before}
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{settings} is no evaluation ({error}); required: the file as it was written; choose "
            "another --output"
        ) from error
    for name, (old, new) in pairs.items():
        if old != new:
            raise InputError(
                f"{settings.parent} was begun with the {name} {old!r}, but it is {new!r} now; "
                "required: the same; choose another --output"
            )
    return {**before, **identity}


def _tolerant(call: CallMany) -> CallMany:
    """Return calls with exceptions as results: any exception of a tool counts as its failure."""

    def caught(calls: Sequence[ToolCall]) -> Sequence[Result]:
        try:
            return call(calls)
        except Exception as error:
            return [Broken(format_error(error))] * len(calls)

    return caught
