"""What in the instructions of a training a person should look at before it is deployed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from evoprompt.errors import InputError
from evoprompt.experiments.directory import RunDirectory
from evoprompt.experiments.eventfile import read_events
from evoprompt.experiments.export.folder import EXPORT
from evoprompt.experiments.export.pool import POOL, Entry, pool_of, read_pool
from evoprompt.experiments.export.source import export_of, saved_under
from evoprompt.experiments.instruction import read_instruction
from evoprompt.experiments.past_failures import remembered
from evoprompt.experiments.population import log_in
from evoprompt.plugins import build, plugins
from evoprompt.screening import ScreeningContext, check, default_rules
from evoprompt.storage import STATE_FILE
from evoprompt.types import Proposal, Question


class AuditFinding(BaseModel):
    """Something to look at.

    Attributes:
        where: trial and candidate, or the file.
        component: whose text it is.
        rule: of screening.
        evidence: its reason, with the words.
    """

    where: str
    component: str
    rule: str
    evidence: str


class Audit(BaseModel):
    """What an audit looked at and found.

    Attributes:
        looked_at: texts.
        not_looked_for: what could not be judged, and why.
        findings: in the order of the texts.
    """

    looked_at: int
    not_looked_for: list[str]
    findings: list[AuditFinding]


@dataclass(frozen=True, slots=True)
class _Text:
    where: str
    component: str
    text: str


def audit(path: Path) -> Audit:
    """Judges the living instructions of a training or an export, or the text of a file.

    Gold answers and questions are the task's training questions where ``path`` is a run, and those
    that the engine's state remembers where it is a checkpoint or has some.

    Args:
        path: a run, the folder of an optimization or of an attached training, a checkpoint, an
            export, or a text file.

    Raises:
        InputError: there is nothing to judge.
    """
    texts, questions = _read(path)
    answers = [answer for question in questions for answer in question.answers]
    context = ScreeningContext(questions=[one.text for one in questions], answers=answers)
    found = [
        AuditFinding(
            where=one.where,
            component=one.component,
            rule=finding.rule,
            evidence=finding.reason,
        )
        for one in texts
        for rule in default_rules()
        if (finding := check(Proposal.of(one.text), context, [rule]))
    ]
    missing = []
    if not questions:
        missing.append(f"leaks: no questions are known of {path}")
    elif not answers:
        missing.append(f"leaks: the questions of {path} have none; copied ones were")
    return Audit(looked_at=len(texts), not_looked_for=missing, findings=found)


def _read(path: Path) -> tuple[list[_Text], Sequence[Question]]:
    if path.is_file():
        return [_Text(str(path), "instruction", read_instruction(path))], ()
    if (path / "config.yaml").is_file():
        return _of_run(RunDirectory.open(path))
    log = log_in(path)
    if log is not None:
        texts = _texts(path.name, pool_of(read_events(log, headlines=False)))
        saved = [one / STATE_FILE for one in saved_under(path)]
        state = next((file for file in reversed(saved) if file.is_file()), path / STATE_FILE)
    else:
        folder = export_of(path)
        texts = _texts(path.name, read_pool(folder / POOL))
        state = (folder.parent if folder.name == EXPORT else folder) / STATE_FILE
    if not state.is_file():
        return texts, ()
    return texts, [record.question for record in remembered(state).records]


def _of_run(directory: RunDirectory) -> tuple[list[_Text], Sequence[Question]]:
    config = directory.config
    texts = [
        text
        for trial in directory.trials()
        for text in _texts(str(trial), pool_of(read_events(directory.trial(trial).events)))
    ]
    if not texts:
        raise InputError(f"{directory.root} has no instructions yet; required: a run that began")
    plugins().block(config.block_plugins)
    return texts, build("task", config.task).questions("train")


def _texts(where: str, entries: Sequence[Entry]) -> list[_Text]:
    return [
        _Text(f"{where} {entry.id}", name, text)
        for entry in entries
        if entry.alive
        for name, text in entry.components.items()
    ]
