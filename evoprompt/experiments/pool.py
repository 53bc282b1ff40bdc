"""The pool of another run as the seeds of this one: what is read, and what of it a task can use."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from evoprompt.errors import InputError
from evoprompt.screening import Finding, ScreeningContext, check, default_rules, duplicate, take_in
from evoprompt.types import INSTRUCTION, Proposal

if TYPE_CHECKING:
    from evoprompt.agents.tasks import Task

_TOLD = 8  # refusals that one error names


class PoolSeed(BaseModel):
    """One instruction of a pool.

    Attributes:
        origin: trial and candidate, within the run it was read from.
        components: its texts.
        weight: its last importance weight; None if it was never measured.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    origin: str
    components: dict[str, str] = Field(min_length=1)
    weight: float | None = None


Pool = tuple[PoolSeed, ...]
"""Who was alive when the pool was read, the highest weight first."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """What a task can use of a pool.

    Attributes:
        seeds: for an engine, the highest weight first; never empty.
        notices: what was left out and why, for people to read.
    """

    seeds: tuple[Proposal, ...]
    notices: tuple[str, ...]


def fit(pool: Pool, source: str, task: Task, most: int) -> Fitted:
    """The best of ``pool`` that ``task`` can use.

    Each is judged as an offspring of the task's own seed instructions would be.

    Args:
        pool: what was read, the highest weight first.
        source: the run it was read from, for messages and lineage.
        task: whose ``required`` texts they must hold.
        most: instructions that the population has room for.

    Raises:
        InputError: the task can use none of them.
    """
    first = task.seeds[0]
    components = {INSTRUCTION} if isinstance(first, str) else set(first)
    return fit_texts(pool, source, task.seed_instructions, components, task.required, most)


def fit_texts(
    pool: Pool,
    source: str,
    own: Sequence[str],
    components: Set[str],
    required: Sequence[str],
    most: int,
) -> Fitted:
    """The best of ``pool`` that a task with these texts can use; see :func:`fit`.

    Args:
        pool: what was read, the highest weight first.
        source: the run it was read from, for messages and lineage.
        own: the seed instructions of the task.
        components: names of what they consist of.
        required: texts that an instruction must hold.
        most: instructions that there is room for.

    Raises:
        InputError: the task can use none of them.
    """
    rules = [rule for rule in default_rules() if rule is not duplicate]
    context = ScreeningContext(parents=list(own), required=tuple(required))
    seeds: list[Proposal] = []
    refused: list[str] = []
    for one in pool:
        proposal, finding = take_in(Proposal(one.components, rationale=_origin(source, one)))
        found = (
            finding
            or _mismatch(proposal, components)
            or check(proposal, context, rules)
            or check(proposal, ScreeningContext(living=[seed.text for seed in seeds]), [duplicate])
        )
        if found is None:
            seeds.append(proposal)
        else:
            refused.append(f"{one.origin} ({found.rule}: {found.reason})")
    if not seeds:
        raise InputError(
            f"this task can use none of the {len(pool)} instructions of {source}: "
            f"{'; '.join(refused[:_TOLD])}; required: instructions for a tool of the same kind"
            f"{_holding(required)}; choose another run, or start without seeds_from"
        )
    notices = [f"not taken over from {source}: {one}" for one in refused]
    if len(seeds) > most:
        notices.append(
            f"left out of {source}: {len(seeds) - most} of {len(seeds)} instructions, those of the "
            f"lowest weight; there is room for {most}"
        )
    return Fitted(tuple(seeds[:most]), tuple(notices))


def _mismatch(proposal: Proposal, components: Set[str]) -> Finding | None:
    if set(proposal.components) == components:
        return None
    return Finding(
        "components",
        f"has the components {sorted(proposal.components)}; required: {sorted(components)}",
    )


def _origin(source: str, one: PoolSeed) -> str:
    weight = "" if one.weight is None else f", weight {one.weight:.2f}"
    return f"{source}: {one.origin}{weight}"


def _holding(required: Sequence[str]) -> str:
    return f", that hold {', '.join(required)}" if required else ""
