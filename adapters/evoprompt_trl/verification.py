"""Evolution with the current policy, all processes in lockstep, without a trace in the trainer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evoprompt.binding import Binding, rolling_out
from evoprompt.events import Notice
from evoprompt.rows import row_of
from evoprompt.types import Assignment, Candidate, Trajectory
from evoprompt_trl.collectives import Collectives
from evoprompt_trl.groups import even_chunks, share_of
from evoprompt_trl.host import HostTrainer
from evoprompt_trl.prompts import PromptWriter
from evoprompt_trl.rollout import Outcome, Roller
from evoprompt_trl.sandbox import sandbox

_Request = list[tuple[dict[str, Any], Candidate, str, int]]
"""Rows to roll out: each with its candidate, the id of its question and its index."""


class Verification:
    """Lets the engine evolve when it is due, with rollouts by the trainer.

    Rank 0 runs ``engine.evolve``; whenever that asks for rollouts, it sends the rows to all
    processes, which roll out their shares together.
    """

    def __init__(
        self,
        trainer: HostTrainer,
        binding: Binding,
        collectives: Collectives,
        writer: PromptWriter,
        roller: Roller,
    ) -> None:
        self._trainer = trainer
        self._binding = binding
        self._engine = binding.engine
        self._collectives = collectives
        self._writer = writer
        self._roller = roller

    def evolve_if_due(self, rows_per_process: int) -> None:
        """Runs one evolution if it is due; at most ``rows_per_process`` rows are rolled at once."""
        collectives, engine = self._collectives, self._engine
        if not collectives.from_leader(engine.evolution_due if collectives.leads else False):
            return
        with rolling_out("verify"), sandbox(self._trainer):
            none: _Request | None = None
            if collectives.leads:
                self._binding.evolve(lambda asked: self._rollout(asked, rows_per_process))
                collectives.from_leader(none)
            else:
                while (request := collectives.from_leader(none)) is not None:
                    self._serve(request, rows_per_process)

    def _rollout(
        self, assignments: Sequence[Assignment], rows_per_process: int
    ) -> list[Trajectory]:
        """The engine's rollout function, on rank 0."""
        refusals = self._writer.refusals([(a.question, a.candidate) for a in assignments])
        self._notice(
            {a.candidate.id: why for a, why in zip(assignments, refusals, strict=True) if why}
        )
        wanted = [
            (assignment, rollout)
            for assignment, refusal in zip(assignments, refusals, strict=True)
            for rollout in range(assignment.rollouts)
            if not refusal
        ]
        request = [(row_of(a.question), a.candidate, a.question.id, n) for a, n in wanted]
        self._collectives.from_leader(request)
        outcomes = self._serve(request, rows_per_process)
        rolled = [
            Trajectory(
                assignment,
                outcome.reward,
                rollout,
                outcome.turns,
                outcome.metrics,
                outcome.feedback,
            )
            for (assignment, rollout), outcome in zip(wanted, outcomes, strict=True)
        ]
        refused = [
            Trajectory(assignment, None, rollout)
            for assignment, refusal in zip(assignments, refusals, strict=True)
            for rollout in range(assignment.rollouts)
            if refusal
        ]
        return rolled + refused

    def _serve(self, request: _Request, rows_per_process: int) -> list[Outcome]:
        """The outcomes of all rows of ``request``, on every process."""
        collectives = self._collectives
        outcomes: list[Outcome] = []
        for chunk in even_chunks(request, rows_per_process * collectives.world):
            mine = share_of(chunk, collectives.rank, collectives.world)
            # Continuous batching leaves the model in training mode, which TRL takes for training.
            self._trainer.model.eval()
            asked = [(candidate.id, question, rollout) for _, candidate, question, rollout in chunk]
            rows = [self._writer.write(row, candidate) for row, candidate, _, _ in mine]
            _, local = self._roller.roll(rows, asked)
            outcomes += collectives.gathered(local)[: len(chunk)]
        return outcomes

    def _notice(self, refusals: dict[str, str]) -> None:
        for refusal in refusals.values():
            self._engine.log.append(Notice(self._engine.step, f"not verified: {refusal}"))
