"""What was paid for: every rollout and every answer of the proposer, to be read again on a resume.

The loop is a function of its seed and of what it is told. So a run goes on by being made again from
its beginning, with the journal in place of the program, the metric and the proposer, and takes the
same decisions up to the last line that was written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue, TypeAdapter

from evoprompt.log.eventlog import to_line
from evoprompt.log.events import Event
from evoprompt.optimizer.outcome import ExampleOutcome
from evoprompt.support.errors import InputError
from evoprompt.support.storage import LineFile
from evoprompt.types import Proposal

JOURNAL = "journal.jsonl"
"""Its name in the folder of a run."""


@dataclass(frozen=True, slots=True)
class Measured(Event):
    """A rollout.

    Attributes:
        texts: a digest of what the candidate says; with its id where rewards are noisy.
        question: id of what was asked.
        sample: how often the same candidate was asked the same before.
        outcome: what it came to.
    """

    texts: str
    question: str
    sample: int
    outcome: ExampleOutcome


@dataclass(frozen=True, slots=True)
class Answered(Event):
    """An answer of the proposer.

    Attributes:
        proposals: what it proposed.
        notices: what it had to say to a person, and why it failed, if it did.
        state: its state afterwards; empty where it keeps none.
        spent: whether it failed because its budget was spent.
        failed: whether it failed at all.
    """

    proposals: Sequence[Proposal] = ()
    notices: Sequence[str] = ()
    state: Mapping[str, JsonValue] = field(default_factory=dict)
    spent: bool = False
    failed: bool = False


_OUTAGE = 10
"""Rollouts without a reward at the end of a journal that are an outage, and made again."""

Key = tuple[str, str, int]
_KINDS: Mapping[str, TypeAdapter[Measured] | TypeAdapter[Answered]] = {
    "measured": TypeAdapter(Measured),
    "answered": TypeAdapter(Answered),
}


class Journal:
    """The rollouts and answers of a run, in a file or, without one, in memory.

    Args:
        path: file that may hold those of an earlier process; a last line that was cut short is
            left out and overwritten.

    Raises:
        InputError: another line of the file cannot be read.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._file = None if path is None else LineFile(path)
        self.rollouts: dict[Key, ExampleOutcome] = {}
        self.answers: dict[int, Answered] = {}
        failed: list[Key] = []
        for number, written in enumerate(self._file or (), start=1):
            try:
                line = json.loads(written)
                entry = _KINDS[line["event"]].validate_python(line)
            except (KeyError, TypeError, ValueError) as error:
                raise InputError(
                    f"{path}:{number} is no entry; required: the journal as it was written; fix or "
                    "delete the line"
                ) from error
            if isinstance(entry, Measured):
                key = entry.texts, entry.question, entry.sample
                self.rollouts[key] = entry.outcome
                if entry.outcome.reward is None:
                    failed.append(key)
                else:
                    failed.clear()
            else:
                self.answers[entry.step] = entry
        if len(failed) >= min(_OUTAGE, len(self.rollouts)):
            for key in dict.fromkeys(failed):  # a key was wrong, or a server was away
                del self.rollouts[key]
        if all(answer.failed for answer in self.answers.values()):
            self.answers.clear()  # it is asked again, for what was wrong may be right by now
        for number in [number for number, answer in self.answers.items() if answer.spent]:
            del self.answers[number]  # the budget of its language model may be higher by now

    def measured(self, step: int, key: Key, outcome: ExampleOutcome) -> None:
        """Keeps the outcome of a rollout."""
        self.rollouts[key] = outcome
        if self._file is not None:
            self._write(Measured(step, *key, outcome))

    def answered(self, answer: Answered) -> None:
        """Keeps an answer of the proposer."""
        self.answers[answer.step] = answer
        self._write(answer)

    def _write(self, entry: Event | Mapping[str, object]) -> None:
        if self._file is not None:
            self._file.append((to_line(entry) + "\n").encode("utf-8", "backslashreplace"))
