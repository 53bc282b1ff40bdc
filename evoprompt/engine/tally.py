"""How the generations of a run ended.

A generation *failed* when its proposer was asked and nobody was admitted because there was nobody
to try: the proposer raised, proposed nothing, or the firewall refused all that it proposed. When
candidates were tried and verification turned all of them away, the generation was *refused*: that
is a finding, not a failure, and it is counted apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from pydantic import JsonValue, TypeAdapter

from evoprompt.engine.generation import Offspring

_IN_A_ROW = 3  # failed generations that are no longer bad luck


@dataclass(slots=True)
class Tally:
    """Counts that survive a resume.

    Attributes:
        generations: in which the proposer was asked.
        generations_failed: of them, those that failed.
        generations_refused: of them, those that were refused.
        proposer_failures: times the proposer raised, or returned something else than proposals.
        admitted_total: candidates admitted.
        failed_in_a_row: generations that failed since the last one that did not.
        last_failure: why the last failed generation failed.
    """

    generations: int = 0
    generations_failed: int = 0
    generations_refused: int = 0
    proposer_failures: int = 0
    admitted_total: int = 0
    failed_in_a_row: int = 0
    last_failure: str = ""

    @property
    def all_failed(self) -> bool:
        """Whether there were generations, and every one of them failed."""
        return 0 < self.generations == self.generations_failed

    def count(self, step: int, offspring: Offspring) -> str:
        """Counts a generation, or a part of one, that took place at engine step ``step``.

        Returns:
            What a person should be warned of: the first failure, and three in a row; else empty.
        """
        self.generations += offspring.begins
        self.generations_refused += offspring.refused
        self.proposer_failures += offspring.proposer_failures
        self.admitted_total += len(offspring.admitted)
        if not offspring.failure:
            self.failed_in_a_row = 0
            return ""
        self.generations_failed += 1
        self.failed_in_a_row += 1
        self.last_failure = offspring.failure
        told = f"{offspring.failure}; training goes on under the instructions it has"
        if self.failed_in_a_row == _IN_A_ROW:
            return f"{_IN_A_ROW} generations in a row failed, the last at step {step}: {told}"
        if self.generations_failed == 1:
            return f"the generation at step {step} failed: {told}"
        return ""

    def metrics(self) -> dict[str, float]:
        """The counts of the whole run."""
        return {
            "generations": float(self.generations),
            "generations_failed": float(self.generations_failed),
            "generations_refused": float(self.generations_refused),
            "proposer_failures": float(self.proposer_failures),
            "admitted_total": float(self.admitted_total),
        }

    def state_dict(self) -> dict[str, JsonValue]:
        """All counts."""
        return asdict(self)

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        saved = _TALLY.validate_python({field.name: state[field.name] for field in fields(self)})
        for field in fields(self):
            setattr(self, field.name, getattr(saved, field.name))


_TALLY = TypeAdapter(Tally)
