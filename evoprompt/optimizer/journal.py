"""Journal of every rollout and every reply of the proposer, which a resumed run reads again.

The loop is a function of its seed, the rollouts and the proposer's replies. A resumed run therefore
starts again from the beginning, with the journal in place of the program, the metric and the
proposer, and takes the same decisions up to the last line of the journal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import JsonValue, TypeAdapter

from evoprompt.log.eventlog import to_line
from evoprompt.log.events import Event
from evoprompt.optimizer.outcome import ExampleOutcome
from evoprompt.support.credentials import masked_texts
from evoprompt.support.errors import InputError
from evoprompt.support.storage import LineFile
from evoprompt.types import Proposal

JOURNAL = "journal.jsonl"
"""Name of the journal in the folder of a run."""


@dataclass(frozen=True, slots=True)
class Measured(Event):
    """Rollout in the journal.

    Attributes:
        texts: digest of the candidate's texts.
        question: id of the question.
        sample: number of earlier rollouts of the same texts on the same question.
        outcome: the outcome.
    """

    texts: str
    question: str
    sample: int
    outcome: ExampleOutcome


@dataclass(frozen=True, slots=True)
class Answered(Event):
    """Reply of the proposer to one request.

    Attributes:
        proposals: the proposals.
        notices: warnings for the user, the last of them the error if the proposer failed.
        state: the proposer's state afterwards; empty if it has none.
        spent: whether the proposer failed because its budget was spent.
        failed: whether the proposer failed, for any reason.
    """

    proposals: Sequence[Proposal] = ()
    notices: Sequence[str] = ()
    state: Mapping[str, JsonValue] = field(default_factory=dict)
    spent: bool = False
    failed: bool = False


_OUTAGE_LENGTH = 10
"""Rollouts without a reward at the end of a journal that count as an outage and are repeated."""

Key = tuple[str, str, int]
_ENTRY_TYPES: Mapping[str, TypeAdapter[Measured] | TypeAdapter[Answered]] = {
    "measured": TypeAdapter(Measured),
    "answered": TypeAdapter(Answered),
}


class Journal:
    """Rollouts and replies of a run, in a file or, without a file, in memory.

    Args:
        path: file that may hold those of an earlier process; a last line that was cut short is
            left out and overwritten.

    Attributes:
        rollouts: outcome of each rollout.
        answers: reply of the proposer to the request of each iteration.

    Raises:
        InputError: another line of the file cannot be read.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._file = None if path is None else LineFile(path)
        self.rollouts: dict[Key, ExampleOutcome] = {}
        self.answers: dict[int, Answered] = {}
        failed_keys: list[Key] = []
        for number, line in enumerate(self._file or (), start=1):
            try:
                fields = json.loads(line)
                entry = _ENTRY_TYPES[fields["event"]].validate_python(fields)
            except (KeyError, TypeError, ValueError) as error:
                raise InputError(
                    f"{path}:{number} is no entry; required: the journal as it was written; fix or "
                    "delete the line"
                ) from error
            if isinstance(entry, Measured):
                key = entry.texts, entry.question, entry.sample
                self.rollouts[key] = entry.outcome
                if entry.outcome.reward is None:
                    failed_keys.append(key)
                else:
                    failed_keys.clear()
            else:
                self.answers[entry.step] = entry
        if len(failed_keys) >= min(_OUTAGE_LENGTH, len(self.rollouts)):
            for key in dict.fromkeys(failed_keys):  # an API key was wrong, or a server was away
                del self.rollouts[key]
        if all(answer.failed for answer in self.answers.values()):
            self.answers.clear()  # all requests are repeated: the cause may be removed by now
        for number in [number for number, answer in self.answers.items() if answer.spent]:
            del self.answers[number]  # the budget of its language model may be higher by now

    def add_rollout(self, step: int, key: Key, outcome: ExampleOutcome) -> None:
        """Store the outcome of a rollout, with the credentials in its texts masked."""
        outcome = masked_texts(outcome)
        self.rollouts[key] = outcome
        if self._file is not None:
            self._write_entry(Measured(step, *key, outcome))

    def add_answer(self, answer: Answered) -> None:
        """Store a reply of the proposer, with the credentials in its notices masked."""
        answer = replace(answer, notices=masked_texts(answer.notices))
        self.answers[answer.step] = answer
        self._write_entry(answer)

    def _write_entry(self, entry: Event | Mapping[str, object]) -> None:
        if self._file is not None:
            self._file.append((to_line(entry) + "\n").encode("utf-8", "backslashreplace"))
