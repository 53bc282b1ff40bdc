"""The task: short answers to real questions, read from two pieces of text in the prompt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from evoprompt.agents import Episode, Limits
from evoprompt.agents.tasks import Headline, Need, Score, Task
from evoprompt.errors import InputError
from evoprompt.prompts import Placement
from evoprompt.roles import BuildContext
from evoprompt.types import Question, Trajectory
from evoprompt_smollm2.answers import contained, exact, f1
from evoprompt_smollm2.bank import BANK, SEED, WORDY

SPLITS = ("train", "validation", "test")


class ReadingSettings(BaseModel):
    """Settings of the task ``reading``.

    Attributes:
        questions: folder that ``evoprompt reading prepare`` wrote.
        placement: where the instruction goes.
        turn_tokens: most tokens of an answer.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    questions: Path
    placement: Placement = "append"
    turn_tokens: int = Field(default=24, ge=1)


class Reading(Task):
    """Short answers to real questions, read from pieces of text in the prompt.

    The reward is the F1 of words.

    Args:
        settings: what was chosen.
    """

    Settings = ReadingSettings
    headline = Headline("f1", "F1 of words")
    seed_instructions = (SEED,)
    bank = BANK

    @classmethod
    def build(cls, settings: ReadingSettings, context: BuildContext) -> Reading:
        """Makes the task as ``settings`` describe it."""
        return cls(settings)

    def __init__(self, settings: ReadingSettings) -> None:
        self.settings = settings
        self.placement = settings.placement
        self.limits = Limits(calls=0, turn_tokens=settings.turn_tokens, observation_tokens=0)

    @cached_property
    def _splits(self) -> dict[str, list[Question]]:
        return {split: self._read(split) for split in SPLITS}

    def questions(self, split: str) -> Sequence[Question]:
        """The questions of ``split``.

        Raises:
            InputError: there is no such split, or its file cannot be read.
        """
        if split not in SPLITS:
            raise InputError(f"split is {split!r}; required: one of {', '.join(SPLITS)}")
        return self._splits[split]

    def needs(self) -> Sequence[Need]:
        """The prepared questions."""
        missing = [one for one in SPLITS if not self._file(one).is_file()]
        remedy = f"evoprompt reading prepare --output {self.settings.questions}" if missing else ""
        text = f"{', '.join(missing)} missing" if missing else "here"
        return [Need("questions", f"{self.settings.questions}: {text}", remedy)]

    def score(self, episode: Episode, question: Question) -> Score:
        """F1; an answer that goes on to the limit is judged by all that was said."""
        said, answers = episode.answer or "", question.answers
        reward = f1(said, answers)
        metrics = {
            "f1": reward,
            "exact": exact(said, answers),
            "contained": contained(said, answers),
            "words": float(len(said.split())),
        }
        feedback = "" if reward == 1 else f"expected {answers[0]!r}, got {said!r}"
        return Score(reward, feedback, metrics, str(question.row["source"]))

    def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
        """What went wrong in a failed trajectory."""
        if not trajectory.turns:
            return ()
        said, answers = trajectory.turns[-1].action, trajectory.question.answers
        right, wordy = contained(said, answers), len(said.split()) > WORDY
        found = {"wordy": wordy, "wrong": not right, "partly": not wordy and f1(said, answers) < 1}
        return [name for name, applies in found.items() if applies]

    def _file(self, split: str) -> Path:
        return self.settings.questions / f"{split}.jsonl"

    def _read(self, split: str) -> list[Question]:
        path, found = self._file(split), []
        try:
            for line in path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                text = "\n".join([*row["pieces"], "", f"Question: {row['question']}"])
                found.append(
                    Question(row["id"], text, tuple(row["answers"]), {"source": row["source"]})
                )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path} cannot be read ({error}); required: questions that `evoprompt reading "
                f"prepare --output {self.settings.questions}` wrote; run it"
            ) from error
        return found
