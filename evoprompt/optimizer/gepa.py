"""Adapters that were written for GEPA, as programs of ours; GEPA itself need not be installed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeGuard

from evoprompt.optimizer.data import Item, as_lines
from evoprompt.optimizer.outcome import ExampleOutcome, Reading
from evoprompt.optimizer.runner import (
    SHOWN,
    Asked,
    Meter,
    NoRewardError,
    Rollouts,
    usable_reward,
)
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.support.errors import InputError
from evoprompt.support.text import format_error
from evoprompt.types import Candidate, Proposal, Turn

Texts = dict[str, str]


class GepaAdapter(Protocol):
    """What GEPA 0.1 calls a ``GEPAAdapter``: a program, its metric, and how to read a rollout.

    Its optional ``propose_new_texts`` writes the new texts where ``optimize`` is given neither a
    language model nor a proposer.
    """

    def evaluate(self, batch: list[Any], candidate: Texts, capture_traces: bool = False) -> Any:
        """GEPA's ``EvaluationBatch``: outputs, scores and, if asked for, trajectories."""

    def make_reflective_dataset(
        self, candidate: Texts, eval_batch: Any, components_to_update: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """What is to be read of the trajectories, for each component."""


def is_adapter(program: object) -> TypeGuard[GepaAdapter]:
    """Whether ``program`` has the methods of a ``GEPAAdapter``."""
    return hasattr(program, "evaluate") and hasattr(program, "make_reflective_dataset")


class Batches(Rollouts):
    """Rollouts of an adapter, which is given them as GEPA gives them: in batches, in one thread.

    Args:
        adapter: evaluates.
        perfect: the greatest reward there is.
    """

    def __init__(self, adapter: GepaAdapter, perfect: float) -> None:
        super().__init__(adapter)
        self._adapter = adapter
        self._perfect = perfect

    def run(self, asked: Sequence[Asked], meter: Meter) -> Iterator[tuple[Asked, ExampleOutcome]]:
        """The outcome of each of ``asked``; a batch for each candidate.

        None has a reward where the adapter raises, and one has none whose score is not finite.
        """
        for candidate in {one.id: one for one, _ in asked}.values():
            items = [item for one, item in asked if one.id == candidate.id]
            for item, outcome in self._batch(candidate, items):
                yield (candidate, item), outcome

    def _batch(
        self, candidate: Candidate, items: Sequence[Item]
    ) -> Iterator[tuple[Item, ExampleOutcome]]:
        texts = dict(candidate.components)
        learning = items[0].question.id.startswith("trainset/")
        try:
            found = self._adapter.evaluate([item.example for item in items], texts, learning)
        except Exception as error:  # the user's code, and whatever is behind it
            for item in items:
                yield item, ExampleOutcome(None, fault=format_error(error))
            return
        if not (hasattr(found, "outputs") and hasattr(found, "scores")):
            raise InputError(
                f"the adapter's evaluate returned a {type(found).__name__}; required: GEPA's "
                "EvaluationBatch, with outputs and scores"
            )
        if not len(found.outputs) == len(found.scores) == len(items):
            raise InputError(
                f"the adapter was given {len(items)} examples and returned {len(found.outputs)} "
                f"outputs with {len(found.scores)} scores; required: one of each for an example"
            )
        traced = learning and len(found.trajectories or ()) == len(items)
        for index, item in enumerate(items):
            score, output = found.scores[index], str(found.outputs[index])[:SHOWN]
            if score is None:
                yield item, ExampleOutcome(None, fault=output)
                continue
            where = f"for {item.question.id}, as a score of the adapter"
            try:
                reward = usable_reward(score, where, self._perfect)
            except NoRewardError as error:
                yield item, ExampleOutcome(None, fault=str(error))
                continue
            readings: Mapping[str, Reading] = {}
            fault = ""
            try:
                if traced and reward < self._perfect:
                    readings = self._read(texts, found, index)
            except Exception as error:  # the user's code
                fault = (
                    f"the adapter's make_reflective_dataset raised {format_error(error)}; "
                    "required: records of one failure, for one component"
                )
            yield item, ExampleOutcome(reward, output, fault=fault, readings=readings)

    def _read(self, texts: Texts, found: Any, index: int) -> Mapping[str, Reading]:
        """What the adapter has to say of one rollout about each component it has a word for."""
        one = replace(
            found,
            outputs=[found.outputs[index]],
            scores=[found.scores[index]],
            trajectories=[found.trajectories[index]],
            objective_scores=found.objective_scores and [found.objective_scores[index]],
        )
        readings = {}
        for component in texts:
            dataset = self._adapter.make_reflective_dataset(dict(texts), one, [component])
            if records := dataset.get(component):
                readings[component] = reading_of(records)
        return readings


class AdapterProposer(Proposer):
    """The texts that an adapter writes itself.

    Args:
        write: its ``propose_new_texts``.
    """

    name = "adapter"

    def __init__(self, write: Callable[..., Mapping[str, str]]) -> None:
        self._write = write

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """One candidate, the component of the request rewritten."""
        parent = request.parents[0].candidate
        rows: list[Mapping[str, Any]] = [failure.question.row for failure in request.failures]
        records = [record for row in rows for record in row.get("records", ())]
        # by position, as GEPA calls it: an adapter may name its parameters as it likes
        texts = self._write(
            dict(parent.components), {request.component: records}, [request.component]
        )
        return [Proposal({**parent.components, **texts}, (parent.id,))]


def reading_of(records: Sequence[Mapping[str, Any]]) -> Reading:
    """Records of a reflective dataset as proposers of ours read them.

    GEPA recommends the fields Inputs, Generated Outputs and Feedback; a record without them is
    read as a whole.
    """
    first = records[0]
    usual = "Inputs" in first
    return Reading(
        question=as_lines(first["Inputs"]) if usual else as_lines(first),
        turns=[
            Turn(as_lines(record.get("Generated Outputs", "" if usual else record)))
            for record in records
        ],
        feedback="\n".join(
            as_lines(record["Feedback"]) for record in records if "Feedback" in record
        ),
        row={"records": json.loads(json.dumps(records, default=str))},
    )
