"""What a user's examples are to the loop: questions that proposers read and screening guards."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evoprompt.hosting.rows import question_from_row
from evoprompt.support.errors import InputError
from evoprompt.types import Question


@dataclass(frozen=True, slots=True)
class Item:
    """An example of the user's, and the question that it asks.

    Attributes:
        question: what a proposer reads of it; its id is its set and its place in it.
        example: what the program and the metric are given.
        guarded: the question with those answers alone that no instruction may give away. What
            answers several questions, as the labels of a classification do, is no secret.
    """

    question: Question
    example: Any
    guarded: Question


def items_of(examples: Sequence[Any], name: str) -> list[Item]:
    """An item for each of ``examples``, in their order.

    Args:
        examples: mappings in one of the usual schemas, texts, ``Question`` objects, or anything
            else, which is shown to proposers as ``str`` writes it.
        name: of the set, for ids and errors.

    Raises:
        InputError: there is none, or they are no sequence.
    """
    if isinstance(examples, str | bytes | Mapping) or not isinstance(examples, Sequence):
        raise InputError(
            f"the {name} is a {type(examples).__name__}; required: a list of examples; write "
            "list(...) around it, of a pandas.DataFrame to_dict('records')"
        )
    if not examples:
        raise InputError(f"the {name} is empty; required: at least one example")
    asked = [question_of(example, f"{name}/{index}") for index, example in enumerate(examples)]
    times = Counter(answer for question in asked for answer in set(question.answers))
    return [
        Item(
            question,
            example,
            replace(question, answers=tuple(a for a in question.answers if times[a] == 1)),
        )
        for question, example in zip(asked, examples, strict=True)
    ]


def split(examples: Sequence[Any], seed: int) -> tuple[Sequence[Any], Sequence[Any]]:
    """Two halves of ``examples``, to reflect on and to validate on.

    Raises:
        InputError: there are fewer than two.
    """
    if len(examples) < 2:
        raise InputError(
            "the trainset has one example and there is no valset; required: at least two, one to "
            "reflect on and one to validate on; give more, or a valset"
        )
    shuffled = random.Random(f"split/{seed}").sample(list(examples), len(examples))
    middle = (len(shuffled) + 1) // 2
    return shuffled[:middle], shuffled[middle:]


def as_lines(fields: Any) -> str:
    """The fields of a mapping, an example or a prediction, one a line; a text as it is."""
    items = getattr(fields, "items", None)
    if not callable(items):
        return str(fields)
    return "\n".join(f"{name}: {value}" for name, value in items())


def question_of(example: object, identity: str) -> Question:
    """What ``example`` asks, under the id ``identity``."""
    if isinstance(example, Question):
        return replace(example, id=identity)
    if callable(getattr(example, "labels", None)):
        example = _row_of_dspy(example, identity)
    row = example if isinstance(example, Mapping) else getattr(example, "__dict__", None)
    if isinstance(row, Mapping):
        try:
            found = question_from_row(row, unasked=json.dumps(dict(row), ensure_ascii=False))
            return replace(found, id=identity, row={})
        except (InputError, TypeError, ValueError):
            pass  # a row of values that JSON cannot carry is shown as Python writes it
    return Question(identity, str(example))


def _row_of_dspy(example: Any, identity: str) -> Mapping[str, Any]:
    """What a ``dspy.Example`` asks, and its labels as answers.

    Raises:
        InputError: it does not say what its inputs are.
    """
    try:
        asked = as_lines(example.inputs())
    except ValueError as error:
        raise InputError(
            f"the example {identity} cannot be used ({error}); required: a dspy.Example that names "
            "its inputs; write .with_inputs('question')"
        ) from error
    labels = example.labels().toDict().values()
    answers = [str(label) for label in labels if isinstance(label, str | int | float)]
    return {"question": asked, "golden_answers": answers}
