"""What became of the instructions of a training, told by its events."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from evoprompt.experiments.eventfile import damaged, read_events
from evoprompt.log.evaluation import MainMetric
from evoprompt.support.errors import InputError
from evoprompt.support.failures import FailureCount
from evoprompt.support.leads import describe_best
from evoprompt.support.sentence_values import SentenceValue
from evoprompt.support.validation import nearest
from evoprompt.types import legible

LOGS = ("events.jsonl", "evoprompt_events.jsonl")
"""Names of a training's log of events; the latter beside veRL's checkpoints."""

_EPISODES = 4  # of a candidate

Json = Mapping[str, Any]


class Weight(NamedTuple):
    """An importance weight after a step; ``stderr`` is None where nobody knows it."""

    step: int
    value: float
    stderr: float | None


class Step(NamedTuple):
    """One training step, counted from 1, with what is drawn over steps.

    That is ``reward``, ``instruction_length`` in words, and the means of the trajectories' metrics.
    ``groups`` had at least two scored rollouts, ``groups_without_signal`` of them equal rewards.
    """

    step: int
    values: Mapping[str, float]
    groups: int = 0
    groups_without_signal: int = 0


@dataclass(slots=True)
class Entry:
    """A text that was given or written, whatever became of it.

    Attributes:
        id: as a candidate; empty if screening refused it.
        components: its texts.
        parents: ids of those it was written from.
        born: step at which it was written.
        proposer: who wrote it; ``"seed"`` for a given one.
        rationale: why, in its writer's words; of a seed, the run it was taken over from, if any.
        rule: of screening that refused it, empty if none did.
        reason: the rule's finding.
        admitted: whether it entered the population.
        died: step at which it left; None if it never did.
        mean: its mean reward in verification; None if it was never verified.
        weights: its importance weights while it lived.
        rollouts: asked for under it in training.
        checks: its verification, an event a round.
        answers: excerpts of rollouts of its verification, bad and good.
        episodes: those of the last rollouts of training under it.
        pinned: whether a person keeps it alive.
        answer: what was said where admissions wait for an answer; empty if nothing was.
    """

    id: str
    components: Mapping[str, str]
    parents: tuple[str, ...] = ()
    born: int = 0
    proposer: str = "seed"
    rationale: str = ""
    rule: str = ""
    reason: str = ""
    admitted: bool = False
    died: int | None = None
    mean: float | None = None
    weights: list[Weight] = field(default_factory=list)
    rollouts: int = 0
    checks: list[Json] = field(default_factory=list)
    answers: list[Json] = field(default_factory=list)
    episodes: deque[Json] = field(default_factory=lambda: deque(maxlen=_EPISODES))
    pinned: bool = False
    answer: str = ""

    @property
    def text(self) -> str:
        """Its texts, as a person reads them."""
        return legible(self.components)

    @property
    def members(self) -> bool:
        """Whether it is in the population."""
        return self.admitted and self.died is None

    @property
    def weight(self) -> float | None:
        """Its last importance weight; None if it never had one."""
        return self.weights[-1].value if self.weights else None


@dataclass(slots=True)
class History:
    """A training so far.

    Attributes:
        texts: all that were given or written, oldest first, those that screening refused included.
        candidates: by id, all that passed screening, oldest first.
        best: the engine's best, empty before the first candidate.
        compared: whether the best was ever compared with the first candidate.
        is_shown: whether the best is shown to be better than the first candidate.
        step: the last one.
        rollouts: spent so far, as far as it was told.
        rollout_failures: training rollouts without a reward, and the reason of the first.
        steps: of training.
        main_metric: what ``evaluations`` hold; None before the first.
        evaluations: (rollouts, main metric) on validation.
        evaluated: the candidate of the last of them.
        generations: those that ended, an event each, with how many texts were ``proposed`` and
            ``refused`` in it.
        notices: (step, message) of all that a person should know.
        interventions: by the id of a person's request, what became of it.
        sentences: what they are worth as it was last told, the clearest first.
        differed: (step, question, mean reward of each candidate) where candidates came out
            differently under one policy.
    """

    texts: list[Entry] = field(default_factory=list)
    candidates: dict[str, Entry] = field(default_factory=dict)
    best: str = ""
    compared: bool = False
    is_shown: bool = False
    step: int = 0
    rollouts: int = 0
    rollout_failures: FailureCount = field(default_factory=FailureCount)
    steps: list[Step] = field(default_factory=list)
    main_metric: MainMetric | None = None
    evaluations: list[tuple[int, float]] = field(default_factory=list)
    evaluated: Entry | None = None
    generations: list[Json] = field(default_factory=list)
    notices: list[tuple[int, str]] = field(default_factory=list)
    interventions: dict[str, Json] = field(default_factory=dict)
    sentences: Sequence[SentenceValue] = ()
    differed: list[tuple[int, str, Mapping[str, float]]] = field(default_factory=list)
    _alive: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, log: Path) -> History:
        """What ``log`` tells.

        Raises:
            InputError: it is damaged, or an event names what none before it has brought.
        """
        found, damage = cls.read_until_damage(log)
        if damage is not None:
            raise damage
        return found

    @classmethod
    def read_until_damage(cls, log: Path) -> tuple[History, InputError | None]:
        """What ``log`` tells up to its first event that cannot be used, and why it cannot."""
        found, damage, line = cls(), None, 1
        try:
            for event in read_events(log):
                found._take(event)
                line += 1
        except InputError as error:
            damage = error
        except LookupError as error:
            damage = damaged(log, line, f"{error} is unknown, or there twice")
        if found.evaluated and not found.steps:  # of a frozen model, whose incumbent was measured
            _, value = found.evaluations[-1]
            found.evaluated.weights.append(Weight(found.step, value, None))
        return found, damage

    @property
    def members(self) -> list[Entry]:
        """Those in the population, oldest first."""
        return [entry for entry in self.candidates.values() if entry.members]

    @property
    def lives(self) -> dict[str, Entry]:
        """By id, everybody who was ever in the population, oldest first."""
        return {name: entry for name, entry in self.candidates.items() if entry.admitted}

    @property
    def proposals(self) -> list[Entry]:
        """The texts that were not given but written."""
        return [entry for entry in self.texts if entry.proposer != "seed"]

    @property
    def evolved(self) -> bool:
        """Whether an instruction was ever added to the first ones."""
        return any(entry.parents for entry in self.lives.values())

    @property
    def failures(self) -> list[Json]:
        """The generations in which there was nothing to try."""
        return [generation for generation in self.generations if generation["failure"]]

    @property
    def merit(self) -> float | None:
        """Of the last evaluation, the higher the better; None before the first."""
        if self.main_metric is None:
            return None
        return self.main_metric.merit(self.evaluations[-1][1])

    @property
    def winner(self) -> str:
        """The id of the instruction of the last evaluation; before the first, of the best."""
        return self.evaluated.id if self.evaluated else self.best

    @property
    def statement(self) -> str:
        """Whether the best is shown to be better than the first instruction, in words."""
        if not self.compared:
            return ""
        return describe_best(self.best, next(iter(self.candidates)), self.is_shown)

    def worth(self, entry: Entry) -> float | None:
        """How good ``entry`` was when it was measured as others were; None if it never was."""
        return entry.mean if entry.weight is None and self.steps else entry.weight

    def path(self) -> list[Entry]:
        """The winner's line of descent, from the seed to itself; of several parents the first."""
        line: list[Entry] = []
        entry = self.candidates.get(self.winner)
        while entry is not None:
            line.append(entry)
            entry = self.candidates.get(entry.parents[0]) if entry.parents else None
        return line[::-1]

    def candidate(self, name: str) -> Entry:
        """The candidate of this id.

        Raises:
            InputError: there is none.
        """
        if name not in self.candidates:
            raise InputError(
                f"no candidate {name!r} in this training; required: one of those that evoprompt "
                f"pool list shows{nearest(name, self.candidates)}"
            )
        return self.candidates[name]

    def _take(self, event: Json) -> None:
        step = self.step = event["step"]
        if event["event"] in ("told", "evaluated"):
            self.rollouts = event["rollouts"]
        match event["event"]:
            case "seeded":
                name, origin = event["candidate"], event["origin"]
                self._add(Entry(name, event["components"], rationale=origin))
                self._keep_alive({*self._alive, name}, step)
            case "proposed":
                self._add(
                    Entry(
                        event["candidate"],
                        event["components"],
                        tuple(event["parents"]),
                        step,
                        event["proposer"],
                        event["rationale"],
                        event["rule"],
                        event["reason"],
                    )
                )
            case "asked":
                for name, count in event["draws"].items():
                    if name in self.candidates:
                        self.candidates[name].rollouts += count * event["rollouts"]
            case "verified":
                entry = self.candidates[event["candidate"]]
                if event["mean"] is not None:
                    entry.mean = event["mean"]
                if not event["parent"]:
                    entry.checks.append(event)
            case "told":
                self._tell(event)
            case "shown":
                for excerpt in event["excerpts"]:
                    entry = self.candidates[excerpt["candidate"]]
                    kept = entry.episodes if entry.admitted else entry.answers
                    kept.append({"step": step, **excerpt})
            case "differed":
                self.differed += [(step, *one) for one in event["questions"].items()]
            case "evolved":
                told = sum(generation["proposed"] for generation in self.generations)
                since = self.proposals[told:]
                refused = sum(bool(entry.rule) for entry in since)
                self.generations.append({**event, "proposed": len(since), "refused": refused})
                self._keep_alive(event["population"], step)
            case "pruned":
                self._keep_alive(event["kept"], step)
            case "intervened":
                self._intervene(event)
            case "sentences":
                self.sentences = [SentenceValue(**one) for one in event["found"]]
            case "notice":
                self.notices.append((step, event["message"]))
            case "best":
                self.best, self.compared = self.candidates[event["candidate"]].id, True
                self.is_shown = event["is_shown"]
            case "evaluated" if event["split"] == "validation" and event["main_metric"]:
                main_metric = MainMetric(**event["main_metric"])
                value = event["metrics"][main_metric.name]
                self.evaluated = self.candidates[event["candidate"]]
                if event["rollouts"] < 0:
                    raise KeyError(event["rollouts"])
                self.evaluations.append((event["rollouts"], value))
                self.main_metric = main_metric

    def _add(self, entry: Entry) -> None:
        for parent in entry.parents:
            self.candidates[parent]  # so that nobody is its own ancestor
        if entry.id in self.candidates:
            raise KeyError(entry.id)
        self.texts.append(entry)
        if entry.id:
            self.candidates[entry.id] = entry
            self.best = self.best or entry.id

    def _tell(self, event: Json) -> None:
        step = event["step"]
        before = self.rollout_failures
        self.rollout_failures = FailureCount(
            before.failed + event["unscored"],
            before.of + event["trajectories"],
            before.first or event.get("failure", ""),
        )
        values = {**event["metrics"], "instruction_length": event["instruction_length"]}
        if event["reward"] is not None:
            values["reward"] = event["reward"]
        groups, without_signal = event.get("groups", 0), event.get("groups_without_signal", 0)
        self.steps.append(Step(step, values, groups, without_signal))
        for name, weight in event["weights"].items():
            known = Weight(step, weight, event["stderrs"].get(name))
            self.candidates[name].weights.append(known)
        self._keep_alive(event["weights"], step)

    def _intervene(self, event: Json) -> None:
        self.interventions[event["request"]] = event
        entry = self.candidates.get(event["candidate"])
        if entry is None:
            return
        match event["action"]:
            case "approve" | "refuse":
                entry.answer = f"{event['action'].removesuffix('e')}ed by {event['by']}"
            case "add" if event["done"]:
                self._keep_alive({*self._alive, entry.id}, event["step"])
            case "pin" | "unpin" if event["done"]:
                entry.pinned = event["action"] == "pin"

    def _keep_alive(self, names: Iterable[str], step: int) -> None:
        alive = self.candidates.keys() & set(names)
        for name in self._alive - alive:
            self.candidates[name].died = step
        for name in alive - self._alive:
            self.candidates[name].admitted, self.candidates[name].died = True, None
        self._alive = alive


def log_in(folder: Path) -> Path | None:
    """The event log that lies in ``folder``; None where there is none."""
    return next((folder / name for name in LOGS if (folder / name).is_file()), None)
