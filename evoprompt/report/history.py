"""What happened in a run, read back from its events: training curves and lives of candidates."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from evoprompt.evaluation import Headline
from evoprompt.runs.summary import curve
from evoprompt.types import legible

_EPISODES = 4  # of a candidate


@dataclass(frozen=True, slots=True)
class Step:
    """One training step.

    Attributes:
        step: counted from 1.
        values: what is drawn over steps: ``reward``, ``instruction_length`` in words, and the
            means of the trajectories' metrics.
    """

    step: int
    values: Mapping[str, float]


class Said(NamedTuple):
    """What the task's scoring said of a rollout."""

    step: int
    reward: float
    text: str


class Weight(NamedTuple):
    """An importance weight after a step; ``stderr`` is None where nobody knows it."""

    step: int
    value: float
    stderr: float | None


class Episode(NamedTuple):
    """An excerpt of a rollout, as the event ``shown`` holds it, and when it was."""

    step: int
    excerpt: Mapping[str, Any]


class Check(NamedTuple):
    """What verification found about a candidate in one round."""

    step: int
    round: int
    mean: float | None
    stderr: float | None
    scored: int
    admitted: bool
    reason: str


@dataclass(slots=True)
class ProposalRecord:
    """A text that a proposer wrote, whatever became of it.

    Attributes:
        step: at which it was judged.
        candidate: id it got; empty if the firewall refused it.
        components: its texts.
        parents: ids it was made from.
        proposer: who wrote it.
        rationale: why.
        rule: of the firewall that refused it, empty if none did.
        reason: the rule's finding.
        checks: its verification, a round each.
        admitted: whether it entered the population.
    """

    step: int
    candidate: str
    components: Mapping[str, str]
    parents: tuple[str, ...]
    proposer: str
    rationale: str = ""
    rule: str = ""
    reason: str = ""
    checks: list[Check] = field(default_factory=list)
    admitted: bool = False

    @property
    def outcome(self) -> str:
        """What became of it, in a word or two."""
        if self.admitted:
            return "admitted"
        if self.rule:
            return "refused"
        return "turned away" if self.checks else "not tried"

    @property
    def why_not(self) -> str:
        """Why it did not enter, if it did not."""
        if self.rule:
            return f"{self.rule}: {self.reason}" if self.reason else self.rule
        return "" if self.admitted or not self.checks else self.checks[-1].reason


class Cycle(NamedTuple):
    """One generation: what was proposed, and what became of it."""

    step: int
    rounds: int
    proposed: int
    refused: int
    admitted: int
    rollouts: int
    population: int
    failure: str


class Draw(NamedTuple):
    """How likely each candidate was at a step, and how often it was drawn."""

    step: int
    chances: Mapping[str, float]
    draws: Mapping[str, int]


@dataclass(slots=True)
class Life:
    """A candidate that entered the population.

    Attributes:
        candidate: its id.
        text: the instruction.
        parents: ids it descends from directly; empty for a seed.
        born: step at which it entered.
        died: step at which it left; None if it never did.
        proposer: who wrote it.
        rationale: why; of a seed, the run it was taken over from, if any.
        verified: mean verification reward at birth, if it was verified.
        weights: importance weights while it lived.
        remark: what the task last said of a rollout under it; None if it never said anything.
        components: its texts by name.
        draws: questions it was asked in training.
        checks: its verification, a round each.
        episodes: the last rollouts under it that were kept for reading, bad and good.
    """

    candidate: str
    text: str
    parents: tuple[str, ...] = ()
    born: int = 0
    died: int | None = None
    proposer: str = "seed"
    rationale: str = ""
    verified: float | None = None
    weights: list[Weight] = field(default_factory=list)
    remark: Said | None = None
    components: Mapping[str, str] = field(default_factory=dict)
    draws: int = 0
    checks: list[Check] = field(default_factory=list)
    episodes: deque[Episode] = field(default_factory=lambda: deque(maxlen=_EPISODES))

    @property
    def weight(self) -> float | None:
        """The last importance weight; the verification reward before it was ever drawn."""
        return self.weights[-1].value if self.weights else self.verified


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
        best: id of the instruction of the last evaluation, empty before the first.
        proposed: proposals in all, refused ones included.
        refused: refused by the firewall.
        generations: that ended, whatever became of them.
        turned_away: generations in which verification turned all candidates away.
        failures: (step, reason) of the generations in which there was nobody to try.
        notices: (step, message) of all that a person should know.
        proposals: every text that was proposed, oldest first.
        cycles: the generations, oldest first.
        drawn: who was asked, and how likely that was, step by step.
    """

    arm: str
    seed: int
    steps: list[Step] = field(default_factory=list)
    headline: Headline | None = None
    evaluations: list[tuple[int, float]] = field(default_factory=list)
    lives: dict[str, Life] = field(default_factory=dict)
    best: str = ""
    proposed: int = 0
    refused: int = 0
    generations: int = 0
    turned_away: int = 0
    failures: list[tuple[int, str]] = field(default_factory=list)
    notices: list[tuple[int, str]] = field(default_factory=list)
    proposals: list[ProposalRecord] = field(default_factory=list)
    cycles: list[Cycle] = field(default_factory=list)
    drawn: list[Draw] = field(default_factory=list)

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
    history = TrialHistory(arm, seed, evaluations=curve(events))
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
                    if excerpt["candidate"] in history.lives:
                        history.lives[excerpt["candidate"]].episodes.append(Episode(step, excerpt))
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
