"""Rows of a table in a file: JSONL, CSV and Parquet, each row with its place for messages."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import JsonValue

from evoprompt.hosting.rows import as_json
from evoprompt.support.errors import InputError

PlacedRow = tuple[str, Mapping[str, JsonValue]]
"""Place of a row in its file, such as ``qa.csv:30``, and the row."""

_DELIMITERS = ",;\t"


def is_table(path: Path) -> bool:
    """Return whether the name of a file is that of a table."""
    return path.suffix.lower() in _READERS


def read_table(path: Path) -> list[PlacedRow]:
    """Return the rows of a table, of values that JSON can hold.

    Raises:
        InputError: the file cannot be read, has no row, or a row of it cannot be used.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(
            f"{path} is no table by its name; required: a file whose name ends with "
            f"{', '.join(_READERS)}; rename it, or convert it"
        )
    rows = reader(path)
    if not rows:
        raise InputError(f"{path} has no rows; required: questions with answers")
    return rows


def numbered_lines(file: Path) -> list[tuple[int, str]]:
    """Return the lines of a JSONL file that are not blank, with their numbers from 1.

    Raises:
        InputError: it cannot be read.
    """
    # Line feeds alone end a line: a JSON string may hold other separators, such as U+2028.
    lines = _read_text(file, "a JSONL file").split("\n")
    return [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]


def _read_text(file: Path, required: str) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{file} cannot be read ({error}); required: {required} in UTF-8"
        ) from error


def _read_jsonl(path: Path) -> list[PlacedRow]:
    rows: list[PlacedRow] = []
    for number, line in numbered_lines(path):
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError(f"it is a {type(row).__name__}")
        except ValueError as error:
            raise InputError(
                f"{path}:{number} is no question ({error}); required: an object such as "
                '{"question": "2 + 2?", "answer": "4"}'
            ) from error
        rows.append((f"{path}:{number}", row))
    return rows


def _read_csv(path: Path) -> list[PlacedRow]:
    """Return the rows of a CSV file with a header; fields are parted as in its first line."""
    text = _read_text(path, "a CSV file")
    header = text.partition("\n")[0]
    delimiter = max(_DELIMITERS, key=header.count)
    csv.field_size_limit(max(len(text), csv.field_size_limit()))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows: list[PlacedRow] = []
    names: list[str] = []
    end = 0
    try:
        for fields in reader:
            location, end = f"{path}:{end + 1}", reader.line_num
            if not any(field.strip() for field in fields):
                continue
            if not names:
                names = [field.strip() for field in fields]
                if len(set(names)) < len(names) or "" in names:
                    raise InputError(
                        f"{location} names the columns {names}; required: a different name for each"
                    )
                continue
            if len(fields) != len(names):
                raise InputError(
                    f"{location} has {len(fields)} fields; required: {len(names)}, one for each "
                    f"column of the first line ({', '.join(names)}); put a text that holds "
                    f"{delimiter!r} in quotes"
                )
            rows.append((location, dict(zip(names, fields, strict=True))))
    except csv.Error as error:
        raise InputError(f"{path}:{end + 1} is no CSV ({error}); required: a CSV file") from error
    return rows


def _read_parquet(path: Path) -> list[PlacedRow]:
    try:
        from pyarrow import ArrowException, parquet
    except ModuleNotFoundError as error:
        raise InputError(
            f"{path} is given and pyarrow is not installed; required: the package that reads "
            "Parquet; pip install pyarrow, or convert the file to CSV"
        ) from error
    try:
        rows = parquet.read_table(path).to_pylist()
    except (OSError, ArrowException) as error:
        raise InputError(f"{path} cannot be read ({error}); required: a Parquet file") from error
    return [(f"row {number} of {path}", as_json(row)) for number, row in enumerate(rows, start=1)]


_READERS: Mapping[str, Callable[[Path], list[PlacedRow]]] = {
    ".jsonl": _read_jsonl,
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".parquet": _read_parquet,
}
