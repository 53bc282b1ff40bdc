"""Simulate how often the engine's best is better than the first instruction, and is shown to be.

    python -m benchmarks.best FOLDER --replications 200

The real engine at its default settings starts from one instruction. Every sixth proposal is better
than that one by a *lead*, in points of expected reward; the others are worth what their parent is.
For each replication it is noted whether the best at the end is better than the first instruction
(found), or another one that is not (other); and for both whether the engine's statement calls it
shown to be better.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.simulation import Journal, Nature, effect_of, interval, table


@dataclass(frozen=True, slots=True)
class Result:
    """One replication.

    Attributes:
        lead: of the better ones, in points; 0 where no instruction matters.
        questions: of a step, with five rollouts each.
        pool: number of questions there are; 0 where none comes twice.
        settings: preset, and how children are accepted where that is not as the preset says.
        steps: of the replication.
        seed: of the replication.
        found: whether the best is better than the first instruction.
        other: whether the best is another instruction that is not better.
        found_shown: whether it is better, and shown to be.
        other_shown: whether it is not better, and shown to be.
    """

    lead: float
    questions: int
    pool: int
    settings: str
    steps: int
    seed: int
    found: bool
    other: bool
    found_shown: bool
    other_shown: bool


def replicate(
    lead: float, questions: int, pool: int, settings: str, steps: int, seed: int
) -> Result:
    """Play one engine through one world."""
    better = effect_of(lead)
    nature = Nature(
        seed, lambda parent, n: max(parent, better * (n % 6 == 1)), questions, steps, pool
    )
    preset, _, accept = settings.partition(" ")
    engine = nature.engine(seed, {"preset": preset, **({"accept": accept} if accept else {})})
    rollouts = engine.divide_rollouts(5, "rollouts")
    for nature.step in range(steps):
        engine.tell(nature(engine.ask(nature.batch(), rollouts)))
        engine.evolve(nature)
    found = nature.worth(engine.best.text) > nature.worth("Instruction number 0.")
    other = not found and engine.best.id != "c0"
    shown = engine.selection.is_best_shown
    return Result(
        lead, questions, pool, settings, steps, seed, found, other, found and shown, other and shown
    )


def rows(results: Sequence[Result]) -> Iterator[list[str]]:
    """Yield a row for each world."""
    worlds: dict[tuple[float, int, int, str], list[Result]] = {}
    for result in results:
        world = result.lead, result.questions, result.pool, result.settings
        worlds.setdefault(world, []).append(result)
    for (lead, questions, pool, settings), world_results in worlds.items():
        cells = []
        for name in ("found", "found_shown", "other", "other_shown"):
            hits = [getattr(result, name) for result in world_results]
            cells.append("{:.3f} ({:.3f} ± {:.3f})".format(sum(hits) / len(hits), *interval(hits)))
        yield [f"{lead:g}", str(questions), str(pool or "no end"), settings, *cells]


def main() -> None:
    """Run the missing replications, then print a row for each world."""
    journal = Journal(
        __doc__ or "", Result, ("lead", "questions", "pool", "settings", "steps", "seed"), 200
    )
    journal.parser.add_argument("--leads", type=float, nargs="*", default=[0, 8, 15])
    journal.parser.add_argument("--questions", type=int, nargs="*", default=[16, 512])
    journal.parser.add_argument("--pools", type=int, nargs="*", default=[0, 100])
    journal.parser.add_argument("--steps", type=int, default=60)
    journal.parser.add_argument("--preset", default="default")
    journal.parser.add_argument("--accept", default="", help="another one than the preset's")

    def plan(
        arguments: Namespace, seed: int
    ) -> Iterator[tuple[tuple[Any, ...], Callable[[], Result]]]:
        settings = f"{arguments.preset} {arguments.accept}".strip()
        for lead in arguments.leads:
            for questions in arguments.questions:
                for pool in (pool for pool in arguments.pools if not pool or pool >= questions):
                    key = (lead, questions, pool, settings, arguments.steps, seed)
                    yield key, partial(replicate, *key)

    header = ["lead", "questions", "there are", "settings", "found", "shown", "other", "shown"]
    print(table(header, rows(journal.run(plan))))


if __name__ == "__main__":
    main()
