"""The instructions an engine starts from."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence

from evoprompt.errors import InputError
from evoprompt.types import INSTRUCTION, Candidate

Seed = str | Mapping[str, str]
"""A text, or a text per component."""


def usable_seeds(seeds: Sequence[Seed], most: int, required: Sequence[str]) -> list[dict[str, str]]:
    """The components of each of ``seeds``.

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
    usable: dict[str, dict[str, str]] = {}
    for seed in seeds:
        components = _components(seed)
        text = Candidate("", components).text
        missing = [tag for tag in required if tag not in text]
        if missing or not text.strip() or text in usable:
            fault = f"lacks {', '.join(missing)}" if missing else "is empty or given twice"
            raise InputError(
                f"the seed instruction {text!r} {fault}; required: different texts "
                f"that hold {', '.join(required) or 'something'}; change the seed"
            )
        usable[text] = components
    return list(usable.values())


def _components(seed: object) -> dict[str, str]:
    components = {INSTRUCTION: seed} if isinstance(seed, str) else seed
    if isinstance(components, Mapping) and all(
        isinstance(part, str) for pair in components.items() for part in pair
    ):
        return dict(components)
    raise InputError(
        f"the seed instruction {reprlib.repr(seed)} is of type {type(seed).__name__}; required: "
        'a text, or a mapping of components to texts; write "..." or {"instruction": "..."}'
    )
