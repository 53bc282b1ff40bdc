"""Passage, and its two record formats."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Passage:
    """Piece of text that can be retrieved.

    Attributes:
        id: unique within its corpus.
        title: of the article it is from; empty when it has none. Holds no newline.
        text: never empty.
    """

    id: str
    title: str
    text: str

    @property
    def contents(self) -> str:
        r"""Return title and text as Search-R1 writes them: the title in quotes on its own line.

        >>> Passage("0", "Ulm", "A city.").contents
        '"Ulm"\nA city.'
        """
        return f'"{self.title}"\n{self.text}' if self.title else self.text


def decode(line: bytes) -> object:
    """Return the content of a JSON line; half of a character becomes the replacement character.

    Raises:
        ValueError: the line has no usable content; the message has the reason, without naming the
            line.
    """
    try:
        # Some editors begin files with a mark.
        content: object = json.loads(line.decode("utf-8-sig"))
        if b"\\u" in line:
            # JSON can spell one half of a surrogate pair; no tokenizer and no file takes it.
            content = json.loads(_HALF.sub("\ufffd", json.dumps(content, ensure_ascii=False)))
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 ({error.reason} at byte {error.start})") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON ({error.msg} at column {error.colno})") from error
    except RecursionError as error:
        raise ValueError("is nested too deeply; required: a flat object") from error
    return content


def parse_line(line: bytes) -> Passage:
    """Return the passage on a JSON line, ``{"id", "contents"}`` or ``{"id", "title", "text"}``.

    The id may be called ``_id``, as in BEIR, and ids and titles may be numbers.

    The first line of ``contents`` is the title if it is quoted, otherwise it belongs to the text,
    so that ``contents`` comes back unchanged.

    Raises:
        ValueError: the line is no passage; the message has the reason, without naming the line.
    """
    record = decode(line)
    if not isinstance(record, dict):
        raise ValueError(f"holds {type(record).__name__}; required: an object")
    identity = record.get("_id") if record.get("id") is None else record["id"]
    if isinstance(identity, bool) or not isinstance(identity, str | int) or identity == "":
        raise ValueError("has no 'id'; required: a text or a whole number")
    title, text = _title_and_text(record)
    if not text.strip():
        raise ValueError("has no text; required: 'contents', or 'title' and 'text'")
    return Passage(str(identity), title, text)


def _title_and_text(record: dict[str, object]) -> tuple[str, str]:
    contents = record.get("contents")
    if isinstance(contents, str):
        title, newline, text = contents.partition("\n")
        if newline and len(title) > 2 and title[0] == title[-1] == '"':
            return title[1:-1], text
        return "", contents
    heading, body = record.get("title"), record.get("text")
    if not isinstance(heading, str | int | float | None) or not isinstance(body, str):
        return "", ""
    return " ".join(str("" if heading is None else heading).split()), body
