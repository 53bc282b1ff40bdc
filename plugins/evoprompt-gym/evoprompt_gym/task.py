"""Task of a question with an answer in tags, scored by the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from reasoning_gym.utils import extract_answer

from evoprompt.agents import Episode, Limits
from evoprompt.agents.tasks import Score, Task
from evoprompt.support.errors import InputError
from evoprompt.support.validation import nearest
from evoprompt.types import Question, Trajectory
from evoprompt_gym.bank import IN_TAGS, bank, diagnose
from evoprompt_gym.datasets import Entry, Splits
from evoprompt_gym.scoring import Scorer
from evoprompt_gym.settings import GymSettings

SHOWN = 300
"""Most characters of an answer in feedback."""
MOST_KINDS = 10
WITHOUT_TAGS = "You are a helpful assistant. Answer the question."
"""The seed instruction if answers do not stand in tags."""


class ReasoningGymTask(Task):
    """Questions of one data set of reasoning-gym, answered in a single turn without tools.

    The reward is the score that the data set itself gives, from 0 to 1.

    Args:
        settings: of the task.

    Raises:
        InputError: there is no such data set, or it does not take its arguments.
    """

    def __init__(self, settings: GymSettings) -> None:
        self.settings = settings
        tags = settings.tags
        self.seed_instructions = (f"{IN_TAGS} Think step by step." if tags else WITHOUT_TAGS,)
        self.required = ("<answer>", "</answer>") if tags else ()
        self.bank = bank(tags)
        self.limits = Limits(calls=0, turn_tokens=settings.turn_tokens, observation_tokens=0)
        self._splits = Splits(settings)
        self._scorer = Scorer(settings.dataset, settings.arguments)

    def questions(self, split: str) -> Sequence[Question]:
        """Return the questions of ``split``: train, validation or test.

        Raises:
            InputError: there is no such split, or too few different questions.
        """
        if split not in self._splits.indices:
            splits = ("train", "validation", "test")
            raise InputError(
                f"split is {split!r}; required: one of {', '.join(splits)}{nearest(split, splits)}"
            )
        return [self._question(index) for index in self._splits.indices[split]]

    def score(self, episode: Episode, question: Question) -> Score:
        """Return the library's score of the text in the last pair of tags, or of the answer."""
        entry = self._splits.entry(int(str(question.row["index"])))
        kind = _kind(entry, self._kind_field)
        text = episode.answer or ""
        answer = extract_answer(text) if self.settings.tags else text.strip()
        if answer is None:
            feedback = "There is no answer inside <answer> and </answer>."
            return Score(0.0, feedback, {"solved": 0.0, "answered": 0.0}, kind)
        result = self._scorer(answer, entry)
        solved = float(result.reward >= 1)
        return Score(
            result.reward,
            _feedback(answer, entry, result.reward, result.fault),
            {"solved": solved, "answered": 1.0},
            kind,
        )

    def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
        """Return the diagnoses of a failed trajectory; see ``bank.py``."""
        return diagnose(trajectory, self.settings.tags)

    def _question(self, index: int) -> Question:
        entry = self._splits.entry(index)
        answer = entry["answer"]
        name = f"{self.settings.dataset}/{self.settings.seed}/{index}"
        answers = () if answer is None else (str(answer),)
        return Question(name, entry["question"], answers, {"index": index})

    @cached_property
    def _kind_field(self) -> str:
        """Return the first measure of difficulty, or source, with two to ten values in the test.

        Results are reported by it; it is empty if there is none.
        """
        entries = [self._splits.entry(index) for index in self._splits.indices["test"]]
        for name in ("source_dataset", *_difficulty(entries[0])):
            values = {_kind(entry, name) for entry in entries}
            if "" not in values and 2 <= len(values) <= MOST_KINDS:
                return str(name)
        return ""


def _kind(entry: Entry, field: str) -> str:
    """Return ``"FIELD VALUE"`` of an entry; empty if it has no plain value of the field."""
    for holder in (entry["metadata"], _difficulty(entry)):
        value = holder.get(field)
        if isinstance(value, str | int | float):
            return f"{field} {value}"
    return ""


def _difficulty(entry: Entry) -> Mapping[str, object]:
    difficulty = entry["metadata"].get("difficulty")
    return difficulty if isinstance(difficulty, Mapping) else {}


def _feedback(answer: str, entry: Entry, reward: float, fault: str) -> str:
    prefix = f"The answer {_short(answer)}"
    if fault:
        return f"{prefix} is worth nothing: {fault}."
    if reward >= 1:
        return f"{prefix} is correct."
    if entry["answer"] is None:
        return f"{prefix} scores {reward:.2f} of 1; it is not a valid solution."
    partly = f" (it scores {reward:.2f} of 1)" if reward > 0 else ""
    return f"{prefix} is wrong{partly}; expected {_short(str(entry['answer']))}."


def _short(text: str) -> str:
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]} [...]")
