"""Adapters for GEPA as programs of evoprompt; GEPA itself need not be installed."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import Any, Protocol, TypeGuard

from evoprompt.optimizer.data import Item, as_lines
from evoprompt.optimizer.options import OptimizeOptions
from evoprompt.optimizer.outcome import ExampleOutcome, Reading
from evoprompt.optimizer.runner import (
    SHOWN,
    Meter,
    NoRewardError,
    RolloutRequest,
    Rollouts,
    usable_metrics,
    usable_reward,
)
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.support.calls import calling
from evoprompt.support.errors import InputError
from evoprompt.support.text import format_error
from evoprompt.types import Candidate, Proposal, Turn

Texts = dict[str, str]
_USUAL_FIELDS = ("Inputs", "Generated Outputs", "Feedback")
_BATCH_FIELDS = ("outputs", "scores", "trajectories", "objective_scores")


class GepaAdapter(Protocol):
    """Protocol of a ``GEPAAdapter`` of GEPA 0.1: a program, its metric, and a reader of rollouts.

    Its optional ``propose_new_texts`` writes the new texts if ``optimize`` is given neither a
    language model nor a proposer.
    """

    def evaluate(self, batch: list[Any], candidate: Texts, capture_traces: bool = False) -> Any:
        """Return GEPA's ``EvaluationBatch``: outputs, scores and, on request, trajectories."""

    def make_reflective_dataset(
        self, candidate: Texts, eval_batch: Any, components_to_update: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Return the records of the trajectories for the proposer, by component."""


def is_adapter(program: object) -> TypeGuard[GepaAdapter]:
    """Return whether ``program`` has the methods of a ``GEPAAdapter``, and is no class."""
    methods = ("evaluate", "make_reflective_dataset")
    return not isinstance(program, type) and all(hasattr(program, name) for name in methods)


class Batches(Rollouts):
    """Rollouts of an adapter, made as GEPA makes them: in batches, in one thread.

    Args:
        adapter: evaluates a batch.
        options: the greatest reward there is, and the limits of the objective scores.
    """

    def __init__(self, adapter: GepaAdapter, options: OptimizeOptions) -> None:
        super().__init__(adapter)
        self._adapter = adapter
        self._perfect = options.perfect
        self._limits = options.limits

    def run(
        self, pairs: Sequence[RolloutRequest], meter: Meter
    ) -> Iterator[tuple[RolloutRequest, ExampleOutcome]]:
        """Yield the outcome of each of ``pairs``; a batch for each candidate.

        If the adapter raises, no outcome of the batch has a reward; an outcome whose score is not
        finite has none either.
        """
        items_by_candidate: dict[str, tuple[Candidate, list[Item]]] = {}
        for candidate, item in pairs:
            items_by_candidate.setdefault(candidate.id, (candidate, []))[1].append(item)
        for candidate, items in items_by_candidate.values():
            for item, outcome in self._evaluate_batch(candidate, items):
                yield (candidate, item), outcome

    def _evaluate_batch(
        self, candidate: Candidate, items: Sequence[Item]
    ) -> Iterator[tuple[Item, ExampleOutcome]]:
        texts = dict(candidate.components)
        is_learning = items[0].question.id.startswith("trainset/")
        try:
            with calling("adapter", self._adapter):
                evaluation = self._adapter.evaluate(
                    [item.example for item in items], texts, is_learning
                )
        except Exception as error:  # the user's code, and everything behind it
            for item in items:
                yield item, ExampleOutcome(None, fault=format_error(error))
            return
        has_fields = all(hasattr(evaluation, field) for field in _BATCH_FIELDS)
        is_batch = has_fields and is_dataclass(evaluation)
        if not is_batch:
            raise InputError(
                f"the adapter's evaluate returned a {type(evaluation).__name__}; required: GEPA's "
                f"EvaluationBatch, a dataclass with {', '.join(_BATCH_FIELDS)}"
            )
        if not len(evaluation.outputs) == len(evaluation.scores) == len(items):
            raise InputError(
                f"the adapter was given {len(items)} examples and returned "
                f"{len(evaluation.outputs)} outputs with {len(evaluation.scores)} scores; "
                "required: one of each for an example"
            )
        has_trajectories = is_learning and len(evaluation.trajectories or ()) == len(items)
        for index, item in enumerate(items):
            score, output = evaluation.scores[index], str(evaluation.outputs[index])[:SHOWN]
            if score is None:
                fault = f"the score of {item.question.id} is None, with the output {output!r:.500}"
                yield item, ExampleOutcome(None, fault=f"{fault}; required: a number")
                continue
            reward_source = f"for {item.question.id}, as a score of the adapter"
            try:
                reward = usable_reward(score, reward_source, self._perfect)
            except NoRewardError as error:
                yield item, ExampleOutcome(None, fault=str(error))
                continue
            readings: Mapping[str, Reading] = {}
            fault = ""
            try:
                if has_trajectories and reward < self._perfect:
                    readings = self._read(texts, evaluation, index)
            except Exception as error:  # the user's code
                fault = (
                    f"the adapter's make_reflective_dataset raised {format_error(error)}; "
                    "required: records of one failure, for one component"
                )
            objectives = evaluation.objective_scores
            metrics = usable_metrics(
                objectives[index] if objectives else {}, self._limits, reward_source
            )
            yield (
                item,
                ExampleOutcome(reward, output, fault=fault, readings=readings, metrics=metrics),
            )

    def _read(self, texts: Texts, evaluation: Any, index: int) -> Mapping[str, Reading]:
        """Return the adapter's reading of one rollout for each component that it has records of."""
        fields = {name: getattr(evaluation, name) for name in _BATCH_FIELDS}
        fields = {name: [values[index]] for name, values in fields.items() if values is not None}
        batch_of_one = replace(evaluation, **fields)
        readings = {}
        for component in texts:
            dataset = self._adapter.make_reflective_dataset(dict(texts), batch_of_one, [component])
            if records := list(dataset.get(component, ())):
                readings[component] = reading_of(records)
        return readings


class AdapterProposer(Proposer):
    """Proposer that takes the texts of an adapter.

    Args:
        write: ``propose_new_texts`` of the adapter.
    """

    name = "adapter"

    def __init__(self, write: Callable[..., Mapping[str, str]]) -> None:
        self._write = write

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Return one proposal, with the component of the request rewritten."""
        parent = request.parents[0].candidate
        rows: list[Mapping[str, Any]] = [failure.question.row for failure in request.failures]
        records = [record for row in rows for record in row.get("records", ())]
        # by position, as GEPA calls it: an adapter may name its parameters as it likes
        texts = self._write(
            dict(parent.components), {request.component: records}, [request.component]
        )
        if not isinstance(texts, Mapping) or not all(isinstance(t, str) for t in texts.values()):
            raise InputError(
                f"propose_new_texts of the adapter returned {reprlib.repr(texts)}; required: a "
                "mapping of components to their new texts"
            )
        return [Proposal({**parent.components, **texts}, (parent.id,))]


def reading_of(records: Sequence[Mapping[str, Any]]) -> Reading:
    """Return records of a reflective dataset as the proposers of evoprompt read them.

    GEPA recommends the fields Inputs, Generated Outputs and Feedback, and shows all fields to its
    writer: the other ones are read as what followed the output, such as the result of a tool. A
    record without Inputs is read as a whole.
    """
    first = records[0]
    return Reading(
        question=as_lines(first.get("Inputs", first)),
        turns=[_turn_of(record) for record in records],
        feedback="\n".join(
            as_lines(record["Feedback"]) for record in records if "Feedback" in record
        ),
        row={"records": json.loads(json.dumps(records, default=str))},
    )


def _turn_of(record: Mapping[str, Any]) -> Turn:
    """Return the output of a record with what followed it."""
    if "Inputs" not in record:
        return Turn(as_lines(record))
    results = {field: value for field, value in record.items() if field not in _USUAL_FIELDS}
    return Turn(as_lines(record.get("Generated Outputs", "")), as_lines(results))
