"""The user's examples as items of the loop: questions that proposers read and screening guards."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evoprompt.hosting.rows import as_json, question_from_row
from evoprompt.support.errors import InputError
from evoprompt.types import Question


@dataclass(frozen=True, slots=True)
class Item:
    """Example of the user, with its question.

    Attributes:
        question: the example as a proposer reads it; its id is the name of its set and its index.
        example: the object that the program and the metric are given.
        guarded: the question with only those answers that no instruction may give away. An answer
            of several questions, such as a label of a classification, is no secret.
    """

    question: Question
    example: Any
    guarded: Question


def items_of(examples: Sequence[Any], name: str) -> list[Item]:
    """Return an item for each of ``examples``, in their order.

    Args:
        examples: mappings in one of the usual schemas, texts, ``Question`` objects, or anything
            else, which is shown to proposers as ``str`` writes it.
        name: name of the set, for ids and errors.

    Raises:
        InputError: there is no example, or ``examples`` is no sequence.
    """
    if isinstance(examples, str | bytes | Mapping) or not isinstance(examples, Sequence):
        raise InputError(
            f"the {name} is a {type(examples).__name__}; required: a list of examples; write "
            "list(...) around it, of a pandas.DataFrame to_dict('records')"
        )
    if not examples:
        raise InputError(f"the {name} is empty; required: at least one example")
    questions = [question_of(example, f"{name}/{index}") for index, example in enumerate(examples)]
    answer_counts = Counter(answer for question in questions for answer in set(question.answers))
    return [
        Item(
            question,
            example,
            replace(
                question,
                answers=tuple(answer for answer in question.answers if answer_counts[answer] == 1),
            ),
        )
        for question, example in zip(questions, examples, strict=True)
    ]


def split(examples: Sequence[Any], seed: int) -> tuple[Sequence[Any], Sequence[Any]]:
    """Split ``examples`` into two random halves, to reflect on and to validate on.

    Raises:
        InputError: there are fewer than two examples.
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
    """Return the fields of a mapping, an example or a prediction, one per line; a text as it is."""
    items = getattr(fields, "items", None)
    if not callable(items):
        return str(fields)
    return "\n".join(f"{name}: {value}" for name, value in items())


def question_of(example: object, identity: str, *, is_strict: bool = False) -> Question:
    """Return the question of ``example``, with the id ``identity``.

    Args:
        example: a text, a question, a row, or an example of DSPy.
        identity: the id.
        is_strict: whether to refuse a row without a question. Otherwise the whole row is the
            question, for a proposer to read; a policy would read its answer in it.

    Raises:
        InputError: the row has no question, or a ``dspy.Example`` does not name its inputs.
    """
    if isinstance(example, Question):
        return replace(example, id=identity)
    if callable(getattr(example, "labels", None)):
        example = _row_of_dspy(example, identity)
    row = example if isinstance(example, Mapping) else getattr(example, "__dict__", None)
    if isinstance(row, Mapping):
        if is_strict:
            question_from_row(as_json(row))
        try:
            json_row = as_json(row)
            unasked = json.dumps(json_row, ensure_ascii=False)
            return replace(question_from_row(json_row, unasked), id=identity, row={})
        except (InputError, TypeError, ValueError, RecursionError):
            pass  # a row that refers to itself is shown as Python writes it
    return Question(identity, str(example))


def _row_of_dspy(example: Any, identity: str) -> Mapping[str, Any]:
    """Return the inputs of a ``dspy.Example`` as a question, and its labels as answers.

    Raises:
        InputError: the example does not name its inputs.
    """
    try:
        question_text = as_lines(example.inputs())
    except ValueError as error:
        raise InputError(
            f"the example {identity} cannot be used ({error}); required: a dspy.Example that names "
            "its inputs; write .with_inputs('question')"
        ) from error
    labels = example.labels().toDict().values()
    answers = [str(label) for label in labels if isinstance(label, str | int | float)]
    return {"question": question_text, "golden_answers": answers}
