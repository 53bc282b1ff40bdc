"""Questions from the rows of a dataset, and the rows again from the questions."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from datetime import date, datetime
from itertools import islice
from typing import Any

from pydantic import JsonValue

from evoprompt.support.errors import InputError, warn
from evoprompt.types import Question

_KIND = "evoprompt/kind"  # key of the object for a value that JSON has no form for
ASKED_BY_ENVIRONMENT = "(asked by the environment)"
"""Text of a question that only a rollout tells."""
_ASKING = (  # columns that ask
    *("prompt", "question", "image", "images"),
    *("video", "videos", "audio", "audios"),
)
_GOLD = ("target", "text", "value", "aliases", "answer", "answers")


def question_from_row(row: Mapping[str, Any], unasked: str = "") -> Question:
    """Return the ``Question`` of a dataset row in any of the usual schemas.

    Reads veRL's rows (``reward_model.ground_truth.target``, ``extra_info.index``),
    TRL rows (``prompt`` as text or messages) and plain ``question``/``golden_answers`` rows. The
    answers may be texts, lists of them, or mappings as in SQuAD and TriviaQA. The
    id is ``id``, else ``extra_info``'s split and index, else a digest of the row; the first two are
    unique only within a data set, so ``data_source`` is put before them.

    The row is kept in the question, and :func:`row_of` gives it back: JSON values as they are,
    dates, bytes, numbers like NaN, images and NumPy's arrays in a form that JSON can carry.

    Args:
        row: of any values.
        unasked: the text of the question where the row asks nothing, as an environment will.

    Raises:
        InputError: the row asks nothing.
    """
    packed_row = packed(row)
    digest = hashlib.blake2b(_encoded(packed_row).encode(), digest_size=8).hexdigest()
    extra = row.get("extra_info")
    extra = extra if isinstance(extra, Mapping) else {}
    texts = (row.get("question"), _last_user_text(row.get("prompt")), unasked)
    text = next((value for value in texts if isinstance(value, str) and value.strip()), "")
    if not text:
        raise InputError(
            f"a dataset row asks nothing: its columns are {sorted(map(str, row))}; "
            "required: a non-empty 'question' or a 'prompt' with a user message"
        )
    return Question(
        id=_legible(_identity(row, extra)) or digest,
        text=_legible(text),
        answers=tuple(map(_legible, _answers(row))),
        row=packed_row,
    )


def training_question(
    row: Mapping[str, Any], index: int, unasked: str = "", is_for_environment: bool = False
) -> Question:
    """Return the question of a trainer's row, with a digest of it in its id.

    Concatenated data sets may each be numbered from 0, so the id of a row is not sufficient. The
    digest is of prompt and media; where an environment asks, of the whole row, and rows without id
    or index that are all alike are then questions of their own.

    Args:
        row: the row.
        index: place of the question in its batch.
        unasked: text of the question if the row holds none; that of an environment if not given.
        is_for_environment: whether an environment is given the row, and asks by it.
    """
    question = question_from_row(row, unasked or ASKED_BY_ENVIRONMENT)
    is_left_open = question.text == ASKED_BY_ENVIRONMENT
    if not has_identity(row):
        return replace(question, id=f"{question.id}-{index}") if is_left_open else question
    columns = question.row if is_left_open or is_for_environment else _ASKING
    identifying_values = {name: question.row[name] for name in columns if name in question.row}
    return replace(question, id=f"{question.id}-{digest_of(identifying_values)}")


def as_json(row: Mapping[Any, Any]) -> dict[str, JsonValue]:
    """Return a copy of ``row`` that JSON can hold; other values are texts, arrays are lists.

    A date, a ``Decimal`` or a number of NumPy in a column that nobody reads hides no question.

    >>> as_json({"question": "Why?", "seen": date(2026, 1, 2)})
    {'question': 'Why?', 'seen': '2026-01-02'}
    """
    texts = {str(name): value for name, value in row.items()}
    return dict(json.loads(json.dumps(texts, default=_lenient, skipkeys=True)))


def _lenient(value: Any) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "replace")
    return value.tolist() if hasattr(value, "tolist") else str(value)


def digest_of(value: object) -> str:
    """Return a digest of eight characters."""
    return hashlib.blake2b(_encoded(value).encode(), digest_size=4).hexdigest()


def is_safe_to_read(dataset: object) -> bool:
    """Return whether rows of a dataset may be read ahead without an effect on what comes later.

    They may where the dataset is a list, or a ``datasets.Dataset`` without a transform. A stream
    may be one that gives each row once, and a transform, or a dataset of the user,
    may draw random numbers.
    """
    if isinstance(dataset, list | tuple):
        return True
    form: Any = getattr(dataset, "format", None)
    has_columns = getattr(dataset, "select_columns", None) is not None
    is_whole = isinstance(dataset, Sized) and has_columns
    return is_whole and isinstance(form, Mapping) and form.get("type") != "custom"


def texts_of(dataset: object, prompt: str, limit: int) -> list[str]:
    """Return the texts of the first questions of a ``datasets.Dataset``; none of any other.

    None either where reading has effects (:func:`is_safe_to_read`).

    Args:
        dataset: of a trainer.
        prompt: name of the column with the prompts.
        limit: questions that are read.
    """
    select: Any = getattr(dataset, "select_columns", None)
    if select is None or not is_safe_to_read(dataset):
        return []
    named: Any = getattr(dataset, "column_names", ())
    rows = islice(select([column for column in ("question", prompt) if column in named]), limit)
    prompt_rows = ({**row, "prompt": row.get(prompt)} for row in rows)
    return [question_from_row(row, unasked="(no text)").text for row in prompt_rows]


def packed(row: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return a copy of ``row`` in JSON, which :func:`row_of` converts back.

    Warns of values that no question can keep; they come back as None.
    """
    try:
        encoded = _encoded(row)
        encoded.encode()
        return dict(json.loads(encoded))
    except (TypeError, ValueError):
        json_row, lost_columns = _kept(row)
    for column, kind in lost_columns.items():
        warn(
            f"the column {column!r} holds values of type {kind}, which cannot be kept for "
            "verification: what rolls a question out again finds None there",
            3,
        )
    return json_row


def row_of(question: Question) -> dict[str, Any]:
    """Return the row of ``question``, with the types that its values had.

    >>> row_of(question_from_row({"prompt": "Why?", "seen": date(2026, 1, 2)}))["seen"]
    datetime.date(2026, 1, 2)
    """
    return {name: _unpacked(value) for name, value in question.row.items()}


def unkept(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns with values that no question can keep, and the types of these values.

    >>> unkept({"prompt": "Why?", "sound": object(), "score": float("nan")})
    {'sound': 'object'}
    """
    return _kept(row)[1]


def _kept(row: Mapping[str, Any]) -> tuple[dict[str, JsonValue], dict[str, str]]:
    """Return ``row`` in JSON, and the types of values without such a form, by column."""
    json_row: dict[str, JsonValue] = {}
    lost_columns: dict[str, str] = {}
    for name, value in row.items():
        kinds: list[str] = []
        json_row[_legible(str(name))] = _packed(value, kinds)
        if kinds:
            lost_columns[str(name)] = kinds[0]
    return json_row, lost_columns


def _encoded(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)


def _packed(value: Any, lost_types: list[str]) -> JsonValue:
    """Return ``value`` in JSON; add the type of each part without such a form to ``lost_types``."""
    match value:
        case None | bool():
            return value
        case int():
            return int(value)
        case str():
            return _legible(str.__str__(value))
        case float():
            return float(value) if math.isfinite(value) else {_KIND: "float", "value": str(value)}
        case Mapping():
            return {_legible(str(key)): _packed(inner, lost_types) for key, inner in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_packed(inner, lost_types) for inner in value]
        case bytes() | bytearray():
            return {_KIND: "bytes", "value": base64.b64encode(value).decode()}
        case datetime():  # before date, which it also is
            return {_KIND: "datetime", "value": value.isoformat()}
        case date():
            return {_KIND: "date", "value": value.isoformat()}
    return _foreign(value, lost_types)


def _legible(text: str) -> str:
    """``text`` without lone surrogates, which no file can hold."""
    return text.encode("utf-8", "replace").decode()


def _foreign(value: Any, lost_types: list[str]) -> JsonValue:
    """Return a value of NumPy or Pillow in JSON; neither is imported for the check."""
    module = type(value).__module__.split(".")[0]
    if module == "numpy" and hasattr(value, "tolist") and value.dtype.kind not in "OV":
        listed = _packed(value.tolist(), lost_types)
        return {_KIND: "numpy", "value": listed, "dtype": str(value.dtype)}
    if module == "PIL" and hasattr(value, "save"):
        file = io.BytesIO()
        try:
            value.save(file, "PNG", compress_level=1)
            return {_KIND: "image", "value": base64.b64encode(file.getvalue()).decode()}
        except OSError:  # a mode that PNG does not have
            pass
    lost_types.append(type(value).__name__)
    return None


def _image(value: str) -> object:
    from PIL import Image

    image = Image.open(io.BytesIO(base64.b64decode(value)))
    image.load()
    return image


def _array(value: object, dtype: str) -> object:
    import numpy as np

    array = np.asarray(value, dtype)
    return array[()] if array.ndim == 0 else array


_READ: Mapping[str, Callable[[Any], object]] = {
    "float": float,
    "bytes": base64.b64decode,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "image": _image,
}


def _unpacked(value: JsonValue) -> Any:
    if isinstance(value, list):
        return [_unpacked(inner) for inner in value]
    if not isinstance(value, Mapping):
        return value
    kind = value.get(_KIND)
    if kind == "numpy":
        return _array(_unpacked(value["value"]), str(value["dtype"]))
    if isinstance(kind, str) and kind in _READ:
        return _READ[kind](value["value"])
    return {name: _unpacked(inner) for name, inner in value.items()}


def has_identity(row: Mapping[str, Any]) -> bool:
    """Return whether ``row`` names its question, by ``id`` or by the index in ``extra_info``."""
    extra = row.get("extra_info")
    return bool(_identity(row, extra if isinstance(extra, Mapping) else {}))


def _identity(row: Mapping[str, Any], extra: Mapping[str, Any]) -> str:
    if row.get("id") is not None:
        identity = str(row["id"])
    elif extra.get("index") is not None:
        split = extra.get("split")
        identity = f"{split}/{extra['index']}" if split else str(extra["index"])
    else:
        return ""
    source = row.get("data_source")
    is_qualified = not source or identity.startswith(f"{source}/")
    return identity if is_qualified else f"{source}/{identity}"


def _last_user_text(prompt: object) -> str | None:
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, Sequence):
        for message in reversed(prompt):
            if isinstance(message, Mapping) and message.get("role") == "user":
                return text_of(message.get("content"))
    return None


def text_of(content: object) -> str:
    """Return the text of a message's content, which may be a list of parts with images.

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
    for column in (
        truth,
        *(row.get(key) for key in ("golden_answers", "answers", "answer", "gold")),
    ):
        if answers := tuple(dict.fromkeys(_texts(column))):
            return answers
    return ()


def _texts(gold: object) -> Iterator[str]:
    """Return the answers in a column: texts, lists, or mappings as in SQuAD."""
    if isinstance(gold, Mapping):
        for key in _GOLD:
            yield from _texts(gold.get(key))
    elif isinstance(gold, str | int) or (isinstance(gold, float) and math.isfinite(gold)):
        if str(gold).strip():
            yield str(gold)
    elif isinstance(gold, Sequence) and not isinstance(gold, bytes | bytearray):
        for answer in gold:
            yield from _texts(answer)
    elif hasattr(gold, "tolist"):
        yield from _texts(gold.tolist())
