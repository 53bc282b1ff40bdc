"""What happened in a run, read back from its events: training curves and lives of candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from evoprompt.evaluation import Headline
from evoprompt.runs.summary import curve
from evoprompt.types import legible


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
        weights: (step, importance weight) while it lived.
        remark: what the task last said of a rollout under it; None if it never said anything.
    """

    candidate: str
    text: str
    parents: tuple[str, ...] = ()
    born: int = 0
    died: int | None = None
    proposer: str = "seed"
    rationale: str = ""
    verified: float | None = None
    weights: list[tuple[int, float]] = field(default_factory=list)
    remark: Said | None = None

    @property
    def weight(self) -> float | None:
        """The last importance weight; the verification reward before it was ever drawn."""
        return self.weights[-1][1] if self.weights else self.verified


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
    for event in events:
        step = event["step"]
        match event["event"]:
            case "seeded":
                text = _text(event)
                name, origin = event["candidate"], event.get("origin", "")
                history.lives[name] = Life(name, text, rationale=origin)
            case "proposed":
                history.proposed += 1
                history.refused += bool(event["rule"])
                proposed[event["candidate"]] = Life(
                    event["candidate"],
                    _text(event),
                    tuple(event["parents"]),
                    step,
                    proposer=event["proposer"],
                    rationale=event["rationale"],
                )
            case "verified" if not event["parent"] and event["candidate"] in proposed:
                proposed[event["candidate"]].verified = event["mean"]
            case "evolved":
                history.generations += 1
                if event.get("failure"):  # older logs do not say
                    history.failures.append((step, event["failure"]))
                elif event.get("rounds") and not event["admitted"]:
                    history.turned_away += 1
                for candidate in event["admitted"]:
                    history.lives[candidate] = proposed[candidate]
                _bury(history, event["population"], step)
            case "pruned":
                _bury(history, event["kept"], step)
            case "notice":
                history.notices.append((step, event["message"]))
            case "told":
                history.steps.append(_step(event))
                for candidate, weight in event["weights"].items():
                    if candidate in history.lives:
                        history.lives[candidate].weights.append((step, weight))
                for candidate, remark in event.get("feedback", {}).items():
                    if candidate in history.lives:
                        history.lives[candidate].remark = Said(step, **remark)
            case "evaluated" if event["split"] == "validation":
                history.best = event["candidate"]
                history.headline = Headline(**event["headline"])
    return history


def _text(event: Mapping[str, Any]) -> str:
    return legible(event["components"])


def _bury(history: TrialHistory, alive: Iterable[str], step: int) -> None:
    living = set(alive)
    for life in history.lives.values():
        if life.died is None and life.candidate not in living:
            life.died = step


def _step(event: Mapping[str, Any]) -> Step:
    values = {**event["metrics"], "instruction_length": event["instruction_length"]}
    if event["reward"] is not None:
        values["reward"] = event["reward"]
    return Step(event["step"], values)
