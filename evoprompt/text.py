"""Texts that others wrote, made fit for a terminal, a log or a comparison."""

from __future__ import annotations

import inspect
import re
import traceback
import unicodedata
from pathlib import Path

from pydantic import JsonValue

from evoprompt.errors import EvopromptError

MASK = "***"
"""What stands where a credential was."""

MARKS = 5
"""Combining marks on one letter that are too many; no script needs them."""

_TAG = re.compile(r"<(/?)([^\W\d_][\w-]{0,60})>")
_SECTION = re.compile(r"^\s*(?:[A-Z]\w+:\s*$|Parameters\b|:param|>>>)", re.MULTILINE)
_TOLD = 2_000  # characters of an error that are told
_FRAMES = 3  # of its traceback, the innermost ones

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_DIRECTION = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_USERINFO = re.compile(r"(?<=://)[^\s/@?#'\"<>]{1,512}(?=@)")
_PARAMETER = re.compile(
    r"([?&;](?:[\w.-]{0,40}?[_-])?(?:api[_-]?key|key|token|secret|password|passwd|pwd|sig|signature|"
    r"credential|auth|code)=)[^\s&;#'\"<>]{1,4096}",
    re.IGNORECASE,
)
_HEADER = re.compile(
    r"(\b(?:bearer|basic)\s{1,4}(?=\S{0,60}\d)|\b(?:x-)?api[_-]?key['\"]?\s{0,4}(?:[:=]|is|provided:?)\s{0,4}['\"]?|"
    r"\bauthorization['\"]?\s{0,4}[:=]\s{0,4}['\"]?(?!bearer|basic))[\w+/=.~*-]{6,4096}",
    re.IGNORECASE,
)
_KEY = re.compile(  # with a digit, or long: sk-learn-pipeline is none
    r"\b(?:sk|pk|rk|hf|gsk|xai|ghp|gho|github_pat|glpat|xox[abp])[-_]"
    r"(?=[\w-]{0,512}[\d*]|[A-Za-z]{20})[\w*-]{8,512}"
    r"|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{30,64}|\beyJ[\w-]{10,4096}\.[\w-]{4,4096}\.[\w-]{4,4096}"
)

_SECRET = re.compile(
    r"(?:.*[_-])?(?:api[_-]?key|(?:access|private|secret)[_-]?key|secret|password|passwd|pwd"
    r"|credentials?|authorization|(?:hub|hf|auth|access|api|bearer|refresh|session)[_-]?token)|token",
    re.IGNORECASE,
)


def stacked(text: str) -> bool:
    """Whether a letter of ``text`` carries more combining marks than any script needs.

    Normalising such a text takes quadratic time.
    """
    if text.isascii():
        return False
    run = 0
    for char in text:
        run = run + 1 if char > "\u02ff" and unicodedata.combining(char) else 0
        if run >= MARKS:
            return True
    return False


def sentences(text: str) -> list[str]:
    r"""The sentences of a text, each on one line; lines are sentences too.

    >>> sentences("Think first. Then answer.\nBe brief")
    ['Think first.', 'Then answer.', 'Be brief']
    """
    parts = (part for line in text.splitlines() for part in re.split(r"(?<=[.!?])\s+", line))
    return [part.strip() for part in parts if part.strip()]


def printable(text: str) -> str:
    r"""``text`` without effect on a terminal: controls (C1 too) and directions are escaped.

    Line feeds and tabs stay.

    >>> printable("red: \x1b[31m")
    'red: \\x1b[31m'
    """
    escaped = _CONTROL.sub(_escape, text)
    return _DIRECTION.sub(_escape, escaped)


def masked(text: str) -> str:
    """``text`` with credentials replaced by ``***``: in URLs, headers, and keys of providers.

    >>> masked("http://me:secret@host/v1?api_key=abc123")
    'http://***@host/v1?api_key=***'
    >>> masked("Incorrect API key provided: sk-abcdefgh1234")
    'Incorrect API key provided: ***'
    """
    if "://" in text:
        text = _USERINFO.sub(MASK, text)
    if "=" in text:
        text = _PARAMETER.sub(rf"\1{MASK}", text)
    text = _HEADER.sub(rf"\1{MASK}", text)
    return _KEY.sub(MASK, text)


def masked_data(value: JsonValue, key: str = "") -> JsonValue:
    """``value`` with its texts :func:`masked`, and whole where a key says that it is a secret.

    >>> masked_data({"url": "http://me:pw@host", "api_key": "abc", "max_tokens": 9})
    {'url': 'http://***@host', 'api_key': '***', 'max_tokens': 9}
    """
    secret = _SECRET.fullmatch(key) is not None
    if isinstance(value, dict):
        return {name: masked_data(one, key if secret else name) for name, one in value.items()}
    if isinstance(value, list):
        return [masked_data(one, key) for one in value]
    if secret and value and not isinstance(value, bool):
        return MASK
    return masked(value) if isinstance(value, str) else value


def tags(text: str) -> list[tuple[str, bool]]:
    """Returns name and whether it closes, for each ``<tag>`` and ``</tag>`` in order."""
    return [(name, slash == "/") for slash, name in _TAG.findall(text)]


def told(error: BaseException) -> str:
    """An error in one line that a log can hold: its type, and what it says, masked and cut."""
    try:
        said = " ".join(str(error)[:_TOLD].split())
    except Exception:  # the error of a plugin may not even be able to speak
        said = "it says nothing"
    return printable(masked(f"{type(error).__name__}: {said}"))


def words_of(function: object) -> str:
    """The name of a function, and what its docstring says before its arguments, for a writer.

    Empty for a function without a name.

    >>> words_of(len)
    '`len`: Return the number of items in a container.'
    """
    inner = getattr(function, "func", function)  # of functools.partial
    name = getattr(inner, "__name__", "")
    if not name or name == "<lambda>":
        return ""
    own = inspect.cleandoc(getattr(inner, "__doc__", None) or "")
    said = " ".join(_SECTION.split(own, maxsplit=1)[0].split())
    return f"`{name}`: {said}" if said else f"`{name}`"


def told_with_place(error: BaseException) -> str:
    """An error in one line, with the place in the code that raised it, and who had called that.

    Those of our own name a remedy instead of a place.
    """
    if isinstance(error, EvopromptError):
        return told(error)
    frames = [  # not extract_tb, which reads the source, too
        (Path(frame.f_code.co_filename).name, line, frame.f_code.co_name)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    shown = (frames[1:] or frames)[-_FRAMES:]  # the first one is who caught it
    places = [f"{file}:{line} in {name}" for file, line, name in shown]
    return f"{told(error)}, at {' > '.join(places)}" if places else told(error)


def _escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
