"""Preparation of texts from other sources for a terminal, a log or a comparison."""

from __future__ import annotations

import inspect
import re
import traceback
from pathlib import Path

from evoprompt.support.credentials import masked
from evoprompt.support.errors import EvopromptError

_TAG = re.compile(r"<(/?)([^\W\d_][\w-]{0,60})>")
_SECTION = re.compile(r"^\s*(?:[A-Z]\w+:\s*$|Parameters\b|:param|>>>)", re.MULTILINE)
_MAX_ERROR = 2_000  # characters of an error message
_MAX_SECRET = 8_192  # characters of a secret
_FRAMES = 3  # of an error's traceback, the innermost ones

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_DIRECTION = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def sentences(text: str) -> list[str]:
    r"""Return the sentences of a text, each on one line; lines are sentences too.

    >>> sentences("Think first. Then answer.\nBe brief")
    ['Think first.', 'Then answer.', 'Be brief']
    """
    parts = (part for line in text.splitlines() for part in re.split(r"(?<=[.!?])\s+", line))
    return [part.strip() for part in parts if part.strip()]


def english(text: str) -> str:
    """Return words of a tiny policy's language as written English, with capitals and punctuation.

    Any other text is returned unchanged.

    >>> english("look twice . then answer , briefly ."), english("Look twice.")
    ('Look twice. Then answer, briefly.', 'Look twice.')
    """
    if " ." not in text or text != text.lower():
        return text
    joined = re.sub(r"[ ]+([.,;:?!])(?=\s|$)", r"\1", text)
    return re.sub(r"(?:^|(?<=[.?!])\s+)[a-z]", lambda match: match.group().upper(), joined)


def many(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> many(1, "round"), many(1200, "round")
    ('1 round', '1,200 rounds')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def join_halves(text: str) -> str:
    r"""Return a text with its half characters joined; a half alone becomes a mark.

    >>> join_halves("\ud83d\ude00"), join_halves("\ud83d!")
    ('😀', '�!')
    """
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def printable(text: str) -> str:
    r"""Return ``text`` without effect on a terminal, controls (C1 too) and directions escaped.

    Line feeds and tabs stay.

    >>> printable("red: \x1b[31m")
    'red: \\x1b[31m'
    """
    escaped = _CONTROL.sub(_escape, text)
    return _DIRECTION.sub(_escape, escaped)


def tags(text: str) -> list[tuple[str, bool]]:
    """Return the name, and whether it closes, for each ``<tag>`` and ``</tag>`` in order."""
    return [(name, slash == "/") for slash, name in _TAG.findall(text)]


def format_error(error: BaseException) -> str:
    """Return an error as one line for a log: its type and its message, masked and cut."""
    try:
        # Before the cut, which may split a key.
        whole = masked(str(error)[: _MAX_ERROR + _MAX_SECRET])
        message = " ".join(whole[:_MAX_ERROR].split())
    except Exception:  # the error of a plugin may fail to format itself
        message = "no message"
    return printable(masked(f"{type(error).__name__}: {message}"))


def words_of(function: object) -> str:
    """Return the name of a function, and its docstring before the arguments, for a proposer.

    Empty for a function without a name.

    >>> words_of(len)
    '`len`: Return the number of items in a container.'
    """
    inner = getattr(function, "func", function)  # of functools.partial
    name = getattr(inner, "__name__", "")
    if not name or name == "<lambda>":
        return ""
    docstring = inspect.cleandoc(getattr(inner, "__doc__", None) or "")
    description = " ".join(_SECTION.split(docstring, maxsplit=1)[0].split())
    return f"`{name}`: {description}" if description else f"`{name}`"


def format_error_with_place(error: BaseException) -> str:
    """Return an error as one line, with the place in the code that raised it, and its callers.

    Errors of evoprompt name a remedy instead of a place.
    """
    if isinstance(error, EvopromptError):
        return format_error(error)
    frames = [  # not extract_tb, which reads the source, too
        (Path(frame.f_code.co_filename).name, line, frame.f_code.co_name)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    inner_frames = (frames[1:] or frames)[-_FRAMES:]  # the first frame caught the error
    locations = [f"{file}:{line} in {name}" for file, line, name in inner_frames]
    return (
        f"{format_error(error)}, at {' > '.join(locations)}" if locations else format_error(error)
    )


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
