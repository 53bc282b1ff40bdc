"""History of the instructions of a training, from its events."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from evoprompt.experiments.eventfile import damage_error, read_events
from evoprompt.log.evaluation import MainMetric
from evoprompt.support.errors import InputError
from evoprompt.support.failures import FailureCount
from evoprompt.support.leads import SentenceValue, describe_best
from evoprompt.support.validation import nearest
from evoprompt.types import legible

LOGS = ("events.jsonl", "evoprompt_events.jsonl")
"""Names of a training's log of events; the latter next to veRL's checkpoints."""

_EPISODES = 4  # of a candidate

Json = Mapping[str, Any]


class Weight(NamedTuple):
    """Importance weight after a step; ``stderr`` is None if it is unknown."""

    step: int
    value: float
    stderr: float | None


class Step(NamedTuple):
    """Training step, counted from 1, with the values that are plotted over steps.

    That is ``reward``, ``instruction_length`` in words, and the means of the trajectories' metrics.
    ``groups`` had at least two scored rollouts, ``groups_without_signal`` of them equal rewards.
    """

    step: int
    values: Mapping[str, float]
    groups: int = 0
    groups_without_signal: int = 0


@dataclass(slots=True)
class Entry:
    """Text that was given or proposed, with everything that happened to it.

    Attributes:
        id: of the candidate; empty if screening rejected it.
        components: its texts.
        parents: ids of its parents.
        born: step at which it was written.
        proposer: its proposer; ``"seed"`` for a given text.
        rationale: reason in the proposer's words; of a seed, the run from which it was taken, if
            any.
        rule: screening rule that rejected it, empty if none did.
        reason: the rule's finding.
        admitted: whether it entered the population.
        died: step at which it was pruned; None if it never was.
        mean: its mean reward in verification; None if it was never verified.
        weights: its importance weights while it was a member.
        rollouts: number of its rollouts in training.
        checks: its verification, an event a round.
        answers: excerpts of rollouts of its verification, bad and good.
        episodes: excerpts of its last rollouts in training.
        pinned: whether the user keeps it in the population.
        answer: decision of the user, if admissions wait for approval; empty if there was none.
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
        """Return its texts in readable form."""
        return legible(self.components)

    @property
    def is_member(self) -> bool:
        """Return whether it is in the population."""
        return self.admitted and self.died is None

    @property
    def weight(self) -> float | None:
        """Return its last importance weight; None if it never had one."""
        return self.weights[-1].value if self.weights else None


@dataclass(slots=True)
class TrainingHistory:
    """History of a training so far.

    Attributes:
        texts: all given and proposed texts, oldest first, including those that screening rejected.
        candidates: by id, all that passed screening, oldest first.
        best: the engine's best, empty before the first candidate.
        compared: whether the best was ever compared with the first candidate.
        is_better: whether there is evidence that the best is better than the first candidate.
        step: the last one.
        rollouts: spent so far, as of the last event that records them.
        rollout_failures: training rollouts without a reward, and the reason of the first.
        steps: of training.
        main_metric: metric of ``evaluations``; None before the first.
        evaluations: (rollouts, main metric) on validation.
        evaluation_sizes: number of questions of each of them; 0 if it is not known.
        evaluated: the candidate of the last of them.
        generations: those that ended, an event each, with how many texts were ``proposed`` and
            ``refused`` in it.
        notices: (step, message) of all notices for the user.
        interventions: results of the user's requests, by the id of the request.
        sentences: their last estimated values, the clearest first.
        disagreements: (step, question, mean reward of each candidate) where candidates came out
            differently under one policy.
    """

    texts: list[Entry] = field(default_factory=list)
    candidates: dict[str, Entry] = field(default_factory=dict)
    best: str = ""
    compared: bool = False
    is_better: bool = False
    step: int = 0
    rollouts: int = 0
    rollout_failures: FailureCount = field(default_factory=FailureCount)
    steps: list[Step] = field(default_factory=list)
    main_metric: MainMetric | None = None
    evaluations: list[tuple[int, float]] = field(default_factory=list)
    evaluation_sizes: list[int] = field(default_factory=list)
    evaluated: Entry | None = None
    generations: list[Json] = field(default_factory=list)
    notices: list[tuple[int, str]] = field(default_factory=list)
    interventions: dict[str, Json] = field(default_factory=dict)
    sentences: Sequence[SentenceValue] = ()
    disagreements: list[tuple[int, str, Mapping[str, float]]] = field(default_factory=list)
    _member_ids: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, log: Path) -> TrainingHistory:
        """Return the history in ``log``.

        Raises:
            InputError: it is damaged, or an event names a candidate that no event before it has
                added.
        """
        history, damage = cls.read_until_damage(log)
        if damage is not None:
            raise damage
        return history

    @classmethod
    def read_until_damage(cls, log: Path) -> tuple[TrainingHistory, InputError | None]:
        """Return the history up to the first event that cannot be used, and that event's error."""
        history, damage, line = cls(), None, 1
        try:
            for event in read_events(log):
                history._apply_event(event)
                line += 1
        except InputError as error:
            damage = error
        except LookupError as error:
            damage = damage_error(log, line, f"{error} is unknown, or there twice")
        # The incumbent of a frozen model was measured.
        if history.evaluated and not history.steps:
            _, value = history.evaluations[-1]
            history.evaluated.weights.append(Weight(history.step, value, None))
        return history, damage

    @property
    def members(self) -> list[Entry]:
        """Return the members of the population, oldest first."""
        return [entry for entry in self.candidates.values() if entry.is_member]

    @property
    def admitted_candidates(self) -> dict[str, Entry]:
        """Return all candidates that were ever in the population, by id, oldest first."""
        return {name: entry for name, entry in self.candidates.items() if entry.admitted}

    @property
    def proposals(self) -> list[Entry]:
        """Return the proposed texts, without the seeds."""
        return [entry for entry in self.texts if entry.proposer != "seed"]

    @property
    def evolved(self) -> bool:
        """Return whether a candidate was ever added to the seeds."""
        return any(entry.parents for entry in self.admitted_candidates.values())

    @property
    def failures(self) -> list[Json]:
        """Return the generations without a usable proposal."""
        return [generation for generation in self.generations if generation["failure"]]

    @property
    def merit(self) -> float | None:
        """Return the merit of the last evaluation, the higher the better; None before the first."""
        if self.main_metric is None:
            return None
        return self.main_metric.merit(self.evaluations[-1][1])

    @property
    def winner(self) -> str:
        """Return the id of the last evaluated instruction; before the first, of the best."""
        return self.evaluated.id if self.evaluated else self.best

    @property
    def statement(self) -> str:
        """Return a sentence on whether the best is shown to be better than the first candidate."""
        if not self.compared:
            return ""
        return describe_best(self.best, next(iter(self.candidates)), self.is_better)

    def value_of(self, entry: Entry) -> float | None:
        """Return the value of ``entry``, comparable among entries; None if never measured."""
        return entry.mean if entry.weight is None and self.steps else entry.weight

    def path(self) -> list[Entry]:
        """Return the winner's lineage, from the seed to itself; of several parents the first."""
        line: list[Entry] = []
        entry = self.candidates.get(self.winner)
        while entry is not None:
            line.append(entry)
            entry = self.candidates.get(entry.parents[0]) if entry.parents else None
        return line[::-1]

    def candidate(self, name: str) -> Entry:
        """Return the candidate of this id.

        Raises:
            InputError: there is none.
        """
        if name not in self.candidates:
            raise InputError(
                f"no candidate {name!r} in this training; required: one of those that evoprompt "
                f"pool list shows{nearest(name, self.candidates)}"
            )
        return self.candidates[name]

    def _apply_event(self, event: Json) -> None:
        step = self.step = event["step"]
        if event["event"] in ("step_completed", "evaluated"):
            self.rollouts = event["rollouts"]
        match event["event"]:
            case "seeded":
                name, origin = event["candidate"], event["origin"]
                self._add(Entry(name, event["components"], rationale=origin))
                self._set_members({*self._member_ids, name}, step)
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
            case "questions_assigned":
                for name, count in event["draws"].items():
                    if name in self.candidates:
                        self.candidates[name].rollouts += count * event["rollouts"]
            case "verified":
                entry = self.candidates[event["candidate"]]
                if event["mean"] is not None:
                    entry.mean = event["mean"]
                if not event["parent"]:
                    entry.checks.append(event)
            case "step_completed":
                self._apply_step(event)
            case "rollout_samples":
                for excerpt in event["excerpts"]:
                    entry = self.candidates[excerpt["candidate"]]
                    excerpts = entry.episodes if entry.admitted else entry.answers
                    excerpts.append({"step": step, **excerpt})
            case "candidates_disagreed":
                self.disagreements += [
                    (step, *question_rewards) for question_rewards in event["questions"].items()
                ]
            case "evolved":
                num_earlier = sum(generation["proposed"] for generation in self.generations)
                since = self.proposals[num_earlier:]
                refused = sum(bool(entry.rule) for entry in since)
                self.generations.append({**event, "proposed": len(since), "refused": refused})
                self._set_members(event["population"], step)
            case "pruned":
                self._set_members(event["members"], step)
            case "intervened":
                self._apply_intervention(event)
            case "sentences":
                self.sentences = [SentenceValue(**sentence) for sentence in event["values"]]
            case "notice":
                self.notices.append((step, event["message"]))
            case "incumbent_changed":
                self.best, self.compared = self.candidates[event["candidate"]].id, True
                self.is_better = event["is_better"]
            case "evaluated" if event["split"] == "validation" and event["main_metric"]:
                main_metric = MainMetric(**event["main_metric"])
                value = event["metrics"][main_metric.name]
                self.evaluated = self.candidates[event["candidate"]]
                if event["rollouts"] < 0:
                    raise KeyError(event["rollouts"])
                self.evaluations.append((event["rollouts"], value))
                self.evaluation_sizes.append(int(event["metrics"].get("questions", 0)))
                self.main_metric = main_metric

    def _add(self, entry: Entry) -> None:
        for parent in entry.parents:
            self.candidates[parent]  # so that no candidate is its own ancestor
        if entry.id in self.candidates:
            raise KeyError(entry.id)
        self.texts.append(entry)
        if entry.id:
            self.candidates[entry.id] = entry
            self.best = self.best or entry.id

    def _apply_step(self, event: Json) -> None:
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
            latest_weight = Weight(step, weight, event["stderrs"].get(name))
            self.candidates[name].weights.append(latest_weight)
        self._set_members(event["weights"], step)

    def _apply_intervention(self, event: Json) -> None:
        self.interventions[event["request"]] = event
        entry = self.candidates.get(event["candidate"])
        if entry is None:
            return
        match event["action"]:
            case "approve" | "refuse":
                entry.answer = f"{event['action'].removesuffix('e')}ed by {event['by']}"
            case "add" if event["done"]:
                self._set_members({*self._member_ids, entry.id}, event["step"])
            case "pin" | "unpin" if event["done"]:
                entry.pinned = event["action"] == "pin"

    def _set_members(self, names: Iterable[str], step: int) -> None:
        member_ids = self.candidates.keys() & set(names)
        for name in self._member_ids - member_ids:
            self.candidates[name].died = step
        for name in member_ids - self._member_ids:
            self.candidates[name].admitted, self.candidates[name].died = True, None
        self._member_ids = member_ids


def log_in(folder: Path) -> Path | None:
    """Return the event log in ``folder``; None if there is none."""
    return next((folder / name for name in LOGS if (folder / name).is_file()), None)
