"""Questions from the rows of a dataset."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from evoprompt.errors import InputError
from evoprompt.types import Question


def question_from_row(row: Mapping[str, Any], unasked: str = "") -> Question:
    """The ``Question`` a dataset row describes, whichever of the usual schemas it follows.

    Reads veRL's rows (``reward_model.ground_truth.target``, ``extra_info.index``),
    TRL rows (``prompt`` as text or messages) and plain ``question``/``golden_answers`` rows. The
    id is ``id``, else ``extra_info``'s split and index, else a digest of the row; the first two are
    unique only within a data set, so ``data_source`` is put before them.

    Args:
        row: values that JSON can carry.
        unasked: the text of the question where the row asks nothing, as an environment will.

    Raises:
        InputError: the row asks nothing, or holds a value that JSON cannot carry.
    """
    try:
        encoded = json.dumps(row, sort_keys=True, ensure_ascii=False, allow_nan=False)
        digest = hashlib.blake2b(encoded.encode(), digest_size=8).hexdigest()
    except (TypeError, ValueError) as error:
        raise InputError(
            f"a dataset row holds a value that cannot be kept for verification ({error}); "
            "required: JSON values only; drop or convert the column before training"
        ) from error
    extra = row.get("extra_info")
    extra = extra if isinstance(extra, Mapping) else {}
    text = row.get("question") or _last_user_text(row.get("prompt"))
    if not isinstance(text, str) or not text.strip():
        text = unasked
    if not text:
        raise InputError(
            f"a dataset row asks nothing: its columns are {sorted(row)}; "
            "required: a non-empty 'question' or a 'prompt' with a user message"
        )
    return Question(
        id=_identity(row, extra) or digest,
        text=text,
        answers=_answers(row),
        row=json.loads(encoded),
    )


def _identity(row: Mapping[str, Any], extra: Mapping[str, Any]) -> str:
    if row.get("id") is not None:
        identity = str(row["id"])
    elif extra.get("index") is not None:
        split = extra.get("split")
        identity = f"{split}/{extra['index']}" if split else str(extra["index"])
    else:
        return ""
    source = row.get("data_source")
    known = not source or identity.startswith(f"{source}/")
    return identity if known else f"{source}/{identity}"


def _last_user_text(prompt: object) -> str | None:
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, Sequence):
        for message in reversed(prompt):
            if isinstance(message, Mapping) and message.get("role") == "user":
                return text_of(message.get("content"))
    return None


def text_of(content: object) -> str:
    """The text of a message's content, which may be a list of parts, images among them.

    >>> text_of([{"type": "image"}, {"type": "text", "text": "Who is this?"}])
    'Who is this?'
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    texts = (part.get("text") for part in content if isinstance(part, Mapping))
    return "".join(text for text in texts if isinstance(text, str))


def _answers(row: Mapping[str, Any]) -> tuple[str, ...]:
    reward_model = row.get("reward_model")
    truth = reward_model.get("ground_truth") if isinstance(reward_model, Mapping) else None
    if isinstance(truth, Mapping):
        truth = truth.get("target")
    for found in (
        truth,
        *(row.get(key) for key in ("golden_answers", "answers", "answer", "gold")),
    ):
        if isinstance(found, str | int | float):
            return (str(found),)
        if isinstance(found, Sequence) and found:
            return tuple(str(answer) for answer in found)
    return ()
