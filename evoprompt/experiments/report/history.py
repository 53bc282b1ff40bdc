"""What happened in a run, read back from its events: training curves and lives of candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evoprompt.comparison import state_best_in
from evoprompt.evaluation import Headline
from evoprompt.experiments.report.records import (
    Check,
    Cycle,
    Draw,
    Episode,
    Life,
    ProposalRecord,
    Said,
    Step,
    Weight,
)
from evoprompt.experiments.summary import curve
from evoprompt.requests import Request, Waiting
from evoprompt.types import legible


@dataclass(slots=True)
class TrialHistory:
    """One arm with one seed.

    Attributes:
        arm: its name.
        seed: its seed.
        steps: training, oldest first.
        headline: what ``evaluations`` hold; None before the first.
        evaluations: (rollouts, headline) on validation.
        lives: every candidate that was ever alive, in order of birth.
        best: id of the instruction of the last evaluation; before the first, of the best after the
            last step, empty where that is not known.
        statement: whether the best is shown to be better than the first instruction, in words;
            empty where nobody was compared with it.
        proposed: proposals in all, refused ones included.
        refused: refused by screening.
        generations: that ended, whatever became of them.
        turned_away: generations in which verification turned all candidates away.
        failures: (step, reason) of the generations in which there was nobody to try.
        notices: (step, message) of all that a person should know.
        proposals: every text that was proposed, oldest first.
        cycles: the generations, oldest first.
        drawn: who was asked, and how likely that was, step by step.
        waiting: who waits for a person's answer now.
        asked: what persons asked and nobody has taken up yet.
    """

    arm: str
    seed: int
    steps: list[Step] = field(default_factory=list)
    headline: Headline | None = None
    evaluations: list[tuple[int, float]] = field(default_factory=list)
    lives: dict[str, Life] = field(default_factory=dict)
    best: str = ""
    statement: str = ""
    proposed: int = 0
    refused: int = 0
    generations: int = 0
    turned_away: int = 0
    failures: list[tuple[int, str]] = field(default_factory=list)
    notices: list[tuple[int, str]] = field(default_factory=list)
    proposals: list[ProposalRecord] = field(default_factory=list)
    cycles: list[Cycle] = field(default_factory=list)
    drawn: list[Draw] = field(default_factory=list)
    waiting: Sequence[Waiting] = ()
    asked: Sequence[Request] = ()

    @property
    def merit(self) -> float | None:
        """Of the last evaluation, the higher the better; None before the first."""
        if self.headline is None:
            return None
        return self.headline.merit(self.evaluations[-1][1])

    @property
    def last_step(self) -> int:
        """The last step trained."""
        return self.steps[-1].step if self.steps else 0

    @property
    def admitted(self) -> int:
        """Candidates that entered the population after the first ones."""
        return sum(life.proposer != "seed" for life in self.lives.values())

    @property
    def evolved(self) -> bool:
        """Whether an instruction was ever added to the first ones."""
        return any(life.parents for life in self.lives.values())

    def ask(self, waiting: Sequence[Waiting], asked: Sequence[Request]) -> None:
        """Notes who waits for a person now, and what persons asked."""
        self.waiting, self.asked = waiting, asked
        names = {one.id for one in waiting}
        for record in self.proposals:
            record.waits = record.candidate in names

    def path(self) -> list[Life]:
        """The best candidate's line of descent, from the seed to itself; its first parents."""
        line: list[Life] = []
        candidate = self.lives.get(self.best)
        while candidate is not None:
            line.append(candidate)
            candidate = self.lives.get(candidate.parents[0]) if candidate.parents else None
        return line[::-1]


def read_histories(events: Iterable[Mapping[str, Any]]) -> list[TrialHistory]:
    """The history of each trial, from the merged events of a run, in their order.

    They are as ``read_events`` gives them: whole, and nobody is its own ancestor.
    """
    by_trial: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for event in events:
        by_trial.setdefault((event["arm"], event["seed"]), []).append(event)
    return [_history(arm, seed, mine) for (arm, seed), mine in by_trial.items()]


def _history(arm: str, seed: int, events: list[Mapping[str, Any]]) -> TrialHistory:
    history = TrialHistory(arm, seed, evaluations=curve(events), statement=state_best_in(events))
    proposed: dict[str, Life] = {}
    records: dict[str, ProposalRecord] = {}
    alive: list[Life] = []
    judged = refused = 0  # proposals and refusals that earlier generations account for
    for event in events:
        step = event["step"]
        match event["event"]:
            case "seeded":
                text = _text(event)
                name, origin = event["candidate"], event.get("origin", "")
                history.lives[name] = Life(
                    name, text, rationale=origin, components=event["components"]
                )
                alive.append(history.lives[name])
            case "asked":
                history.drawn.append(Draw(step, event.get("probabilities", {}), event["draws"]))
                for candidate, count in event["draws"].items():
                    if candidate in history.lives:
                        history.lives[candidate].draws += count
            case "proposed":
                history.proposed += 1
                history.refused += bool(event["rule"])
                record = _record(event)
                history.proposals.append(record)
                if record.candidate:
                    records[record.candidate] = record
                proposed[record.candidate] = Life(
                    record.candidate,
                    _text(event),
                    record.parents,
                    step,
                    proposer=record.proposer,
                    rationale=record.rationale,
                    components=record.components,
                    checks=record.checks,
                    answers=record.answers,
                )
            case "verified" if not event["parent"] and event["candidate"] in proposed:
                proposed[event["candidate"]].verified = event["mean"]
                records[event["candidate"]].checks.append(_check(event))
            case "evolved":
                history.generations += 1
                if event.get("failure"):  # older logs do not say
                    history.failures.append((step, event["failure"]))
                elif event.get("rounds") and not event["admitted"]:
                    history.turned_away += 1
                for candidate in event["admitted"]:
                    history.lives[candidate] = proposed[candidate]
                    records[candidate].admitted = True
                    alive.append(history.lives[candidate])
                alive = _bury(alive, event["population"], step)
                history.cycles.append(
                    Cycle(
                        step,
                        event.get("rounds", 0),
                        history.proposed - judged,
                        history.refused - refused,
                        len(event["admitted"]),
                        event.get("rollouts", 0),
                        len(event["population"]),
                        event.get("failure", ""),
                    )
                )
                judged, refused = history.proposed, history.refused
            case "intervened" if event["action"] == "add" and event["done"]:
                history.lives[event["candidate"]] = proposed[event["candidate"]]
                alive.append(history.lives[event["candidate"]])
            case "intervened" if event["action"] in ("approve", "refuse"):
                if event["candidate"] in records:
                    answer = f"{event['action'].removesuffix('e')}ed by {event['by']}"
                    records[event["candidate"]].answer = answer
            case "intervened" if event["action"] in ("pin", "unpin"):
                if event["candidate"] in history.lives and event["done"]:
                    history.lives[event["candidate"]].pinned = event["action"] == "pin"
            case "pruned":
                alive = _bury(alive, event["kept"], step)
            case "notice":
                history.notices.append((step, event["message"]))
            case "told":
                history.steps.append(_step(event))
                for candidate, weight in event["weights"].items():
                    if candidate in history.lives:
                        known = Weight(step, weight, event.get("stderrs", {}).get(candidate))
                        history.lives[candidate].weights.append(known)
                for candidate, remark in event.get("feedback", {}).items():
                    if candidate in history.lives:
                        history.lives[candidate].remark = Said(step, **remark)
            case "shown":
                for excerpt in event["excerpts"]:
                    candidate, episode = excerpt["candidate"], Episode(step, excerpt)
                    if candidate in history.lives:
                        history.lives[candidate].episodes.append(episode)
                    elif candidate in records:  # not admitted yet: of its verification
                        records[candidate].answers.append(episode)
            case "best" if history.headline is None:
                history.best = event["candidate"]
            case "evaluated" if event["split"] == "validation" and event["headline"]:
                history.best = event["candidate"]
                history.headline = Headline(**event["headline"])
    return history


def _text(event: Mapping[str, Any]) -> str:
    return legible(event["components"])


def _record(event: Mapping[str, Any]) -> ProposalRecord:
    return ProposalRecord(
        event["step"],
        event["candidate"],
        event["components"],
        tuple(event["parents"]),
        event["proposer"],
        event["rationale"],
        event["rule"],
        event["reason"],
    )


def _check(event: Mapping[str, Any]) -> Check:
    return Check(
        event["step"],
        event.get("round", 1),
        event["mean"],
        event.get("stderr"),
        event.get("scored", 0),
        event.get("admitted", False),
        event.get("reason", ""),
    )


def _bury(alive: list[Life], living: Iterable[str], step: int) -> list[Life]:
    """Ends the lives of those of ``alive`` that are not among the ``living``; gives the others."""
    names = set(living)
    for life in alive:
        if life.candidate not in names:
            life.died = step
    return [life for life in alive if life.candidate in names]


def _step(event: Mapping[str, Any]) -> Step:
    values = {**event["metrics"], "instruction_length": event["instruction_length"]}
    if event["reward"] is not None:
        values["reward"] = event["reward"]
    return Step(event["step"], values)
