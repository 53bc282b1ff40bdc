"""The instructions an engine starts from."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence

from evoprompt.errors import InputError
from evoprompt.types import INSTRUCTION, Proposal

Seed = str | Mapping[str, str] | Proposal
"""A text, a text per component, or a proposal whose rationale says where it comes from."""


def usable_seeds(seeds: Sequence[Seed], most: int, required: Sequence[str]) -> list[Proposal]:
    """What becomes the first candidates, one proposal per seed.

    Raises:
        InputError: there is none, more than ``most``, two alike, an empty one, one without a
            required tag, or something that is no text.
    """
    if isinstance(seeds, str | bytes) or not isinstance(seeds, Sequence) or not seeds:
        raise InputError(
            f"the seed instructions are {reprlib.repr(seeds)}; required: a list of at least one "
            'text; write ["..."]'
        )
    if len(seeds) > most:
        raise InputError(
            f"{len(seeds)} seed instructions were given; required: at most population_size "
            f"{most}; drop some or raise it"
        )
    usable: dict[str, Proposal] = {}
    for seed in seeds:
        origin = seed.rationale if isinstance(seed, Proposal) else ""
        proposal = Proposal(_components(seed), rationale=origin, proposer="seed")
        text = proposal.text
        missing = [tag for tag in required if tag not in text]
        if missing or not text.strip() or text in usable:
            fault = f"lacks {', '.join(missing)}" if missing else "is empty or given twice"
            raise InputError(
                f"the seed instruction {text!r} {fault}; required: different texts "
                f"that hold {', '.join(required) or 'something'}; change the seed"
            )
        usable[text] = proposal
    return list(usable.values())


def _components(seed: object) -> dict[str, str]:
    given = seed.components if isinstance(seed, Proposal) else seed
    components = {INSTRUCTION: given} if isinstance(given, str) else given
    if isinstance(components, Mapping) and all(
        isinstance(part, str) for pair in components.items() for part in pair
    ):
        return dict(components)
    raise InputError(
        f"the seed instruction {reprlib.repr(seed)} is of type {type(seed).__name__}; required: "
        'a text, or a mapping of components to texts; write "..." or {"instruction": "..."}'
    )
