"""Texts that others wrote, made fit for a terminal, a log or a comparison."""

from __future__ import annotations

import inspect
import json
import os
import re
import traceback
from base64 import b64encode
from functools import cache, lru_cache
from pathlib import Path
from urllib.parse import quote

from pydantic import JsonValue

from evoprompt.support.errors import EvopromptError

MASK = "***"
"""What stands where a credential was."""

_TAG = re.compile(r"<(/?)([^\W\d_][\w-]{0,60})>")
_SECTION = re.compile(r"^\s*(?:[A-Z]\w+:\s*$|Parameters\b|:param|>>>)", re.MULTILINE)
_TOLD = 2_000  # characters of an error that are told
_LONGEST = 8_192  # characters of a secret
_FRAMES = 3  # of its traceback, the innermost ones

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_DIRECTION = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_USERINFO = re.compile(r"(?<=://)[^\s/@?#'\"<>]{1,512}(?=@)")
_PARAMETER = re.compile(r"([?&;]|--)([\w.-]{1,60})=([^\s&;#'\"<>]{1,4096})")
_SECRET = re.compile(
    r"(?:.*[_-])?(?:api[_-]?key|(?:access|private|secret|signing|encryption|account)[_-]?key|secret"
    r"|password|passwd|pwd|passphrase|credentials?|authorization|cookie|jwt|webhook(?:[_-]?url)?"
    r"|connection[_-]?string|(?:hub|hf|auth|access|api|bearer|refresh|session|private|sas)"
    r"[_-]?token)|token|auth|dsn",
    re.IGNORECASE,
)
_SIGNED = frozenset({"key", "sig", "signature", "x-amz-signature"})
"""Names of a secret among the parameters of a URL, which elsewhere are names of other things."""
_SECRET_VARIABLE = re.compile(
    r"(?:.*(?:key|token|secret|passw(?:or)?d|pass|passphrase|webhook)|(?:.*_)?(?:credentials?"
    r"|authorization|bearer|cookie|jwt|dsn|connection_string)|.*_(?:auth|pat|pwd))(?:_\w+)?",
    re.IGNORECASE,
)
_URL_SAFE = str.maketrans("+/", "-_")
_SHORTEST = 6  # characters of a value that is looked for in texts; a shorter one may be any word
_given: set[str] = set()  # secrets that settings have held in this process


def sentences(text: str) -> list[str]:
    r"""The sentences of a text, each on one line; lines are sentences too.

    >>> sentences("Think first. Then answer.\nBe brief")
    ['Think first.', 'Then answer.', 'Be brief']
    """
    parts = (part for line in text.splitlines() for part in re.split(r"(?<=[.!?])\s+", line))
    return [part.strip() for part in parts if part.strip()]


def english(text: str) -> str:
    """Words of a tiny policy's language, for a person: capitals, and no spaces before marks.

    Any other text stays as it is.

    >>> english("look twice . then answer , briefly ."), english("Look twice.")
    ('Look twice. Then answer, briefly.', 'Look twice.')
    """
    if " ." not in text or text != text.lower():
        return text
    joined = re.sub(r"[ ]+([.,;:?!])(?=\s|$)", r"\1", text)
    return re.sub(r"(?:^|(?<=[.?!])\s+)[a-z]", lambda found: found.group().upper(), joined)


def many(number: int, noun: str) -> str:
    """A number with its noun.

    >>> many(1, "round"), many(1200, "round")
    ('1 round', '1,200 rounds')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def printable(text: str) -> str:
    r"""``text`` without effect on a terminal: controls (C1 too) and directions are escaped.

    Line feeds and tabs stay.

    >>> printable("red: \x1b[31m")
    'red: \\x1b[31m'
    """
    escaped = _CONTROL.sub(_escape, text)
    return _DIRECTION.sub(_escape, escaped)


def masked(text: str) -> str:
    """``text`` with ``***`` for every secret that is known, and for the user in a URL.

    Known are the values of the environment variables, and of the settings that this process has
    seen (:func:`masked_data`), whose name says that they are secrets, and the passwords of URLs in
    either; as they are, encoded for a URL, as JSON has them, or in base64.

    >>> os.environ["EXAMPLE_API_KEY"] = "s3cret-value"
    >>> masked("http://me:pw@host refused s3cret-value")
    'http://***@host refused ***'
    """
    if "://" in text:
        text = _USERINFO.sub(MASK, text)
    held = set(_given)
    for name, value in os.environ.items():
        if _holds_secret(name) and not _is_path(value):
            held.add(value)
        if "://" in value:
            held |= _of_users(value)
    for secret in sorted(held, key=len, reverse=True):
        for form in _forms(secret) if len(secret) >= _SHORTEST else ():
            text = text.replace(form, MASK)
    return text


@lru_cache(maxsize=256)
def _forms(secret: str) -> tuple[str, ...]:
    """How a secret may stand in a text."""
    raw = secret.encode("utf-8", "surrogatepass")
    quoted = [quote(secret, safe=safe, errors="replace") for safe in ("", "/")]
    quoted += [json.dumps(secret)[1:-1], repr(secret)[1:-1]]
    coded = []
    for before in range(3):  # bytes beside it, as those of a user, shift what base64 makes of it
        whole = b64encode(bytes(before) + raw).decode().rstrip("=")
        shared = (before + len(raw)) % 3 > 0
        own = whole[-(-8 * before // 6) : len(whole) - shared]
        coded += [own, own.translate(_URL_SAFE)]
    return tuple(dict.fromkeys((secret, *quoted, *coded)))


def _of_users(text: str) -> set[str]:
    """The passwords in the URLs of a text, or who is named there without one."""
    found = set()
    for userinfo in _USERINFO.findall(text):
        user, colon, password = userinfo.partition(":")
        found |= {userinfo, password} if colon else {user}
    return found


def masked_data(value: JsonValue, key: str = "") -> JsonValue:
    """``value`` without what its keys, or names of parameters in URLs, say to be a secret.

    From then on :func:`masked` knows them.

    >>> masked_data({"url": "http://me:pw@host", "api_key": "abc", "max_tokens": 9})
    {'url': 'http://***@host', 'api_key': '***', 'max_tokens': 9}
    """
    secret = _is_secret(key)
    if isinstance(value, dict):
        return {name: masked_data(one, key if secret else name) for name, one in value.items()}
    if isinstance(value, list):  # of a command line, too, where a name stands before its value
        named = map(str, ["", *value])
        return [
            masked_data(one, name[2:] if name[:2] == "--" and _is_secret(name[2:]) else key)
            for one, name in zip(value, named, strict=False)
        ]
    if secret and value and not isinstance(value, bool):
        _given.add(str(value))
        return MASK
    if not isinstance(value, str):
        return value
    found = {
        one
        for before, name, one in _PARAMETER.findall(value)
        if _is_secret(name) or (before != "--" and name.lower() in _SIGNED)
    }
    _given.update(_of_users(value), found)
    for one in found:
        value = value.replace(f"={one}", f"={MASK}")
    return masked(value)


def keep_secret(value: str) -> None:
    """Has :func:`masked` know ``value`` from now on, wherever it was read."""
    _given.add(value)


@cache
def _is_secret(name: str) -> bool:
    return _SECRET.fullmatch(name) is not None


@cache
def _holds_secret(variable: str) -> bool:
    """Whether an environment variable of this name holds one; there names are chosen freely."""
    return _SECRET_VARIABLE.fullmatch(variable) is not None


@cache
def _is_path(value: str) -> bool:
    """Whether a variable names the file of a secret."""
    return os.path.exists(value)  # noqa: PTH110  # that of a Path raises for a long key


def tags(text: str) -> list[tuple[str, bool]]:
    """Returns name and whether it closes, for each ``<tag>`` and ``</tag>`` in order."""
    return [(name, slash == "/") for slash, name in _TAG.findall(text)]


def format_error(error: BaseException) -> str:
    """An error in one line that a log can hold: its type, and what it says, masked and cut."""
    try:
        whole = masked(str(error)[: _TOLD + _LONGEST])  # before it is cut, in the middle of a key
        said = " ".join(whole[:_TOLD].split())
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


def format_error_with_place(error: BaseException) -> str:
    """An error in one line, with the place in the code that raised it, and who had called that.

    Those of our own name a remedy instead of a place.
    """
    if isinstance(error, EvopromptError):
        return format_error(error)
    frames = [  # not extract_tb, which reads the source, too
        (Path(frame.f_code.co_filename).name, line, frame.f_code.co_name)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    shown = (frames[1:] or frames)[-_FRAMES:]  # the first one is who caught it
    places = [f"{file}:{line} in {name}" for file, line, name in shown]
    return f"{format_error(error)}, at {' > '.join(places)}" if places else format_error(error)


def _escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
