"""Preparation of texts from other sources for a terminal, a log or a comparison."""

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
"""Text that replaces a credential."""

_TAG = re.compile(r"<(/?)([^\W\d_][\w-]{0,60})>")
_SECTION = re.compile(r"^\s*(?:[A-Z]\w+:\s*$|Parameters\b|:param|>>>)", re.MULTILINE)
_MAX_ERROR = 2_000  # characters of an error message
_MAX_SECRET = 8_192  # characters of a secret
_FRAMES = 3  # of an error's traceback, the innermost ones

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
_SECRET_PARAMETERS = frozenset({"key", "sig", "signature", "x-amz-signature"})
"""Names of secrets among the parameters of a URL; elsewhere they name other things."""
_SECRET_VARIABLE = re.compile(
    r"(?:.*(?:key|token|secret|passw(?:or)?d|pass|passphrase|webhook)|(?:.*_)?(?:credentials?"
    r"|authorization|bearer|cookie|jwt|dsn|connection_string)|.*_(?:auth|pat|pwd))(?:_\w+)?",
    re.IGNORECASE,
)
_URL_SAFE = str.maketrans("+/", "-_")
_MIN_SECRET = 6  # characters of a secret that is searched for; a shorter value may be any word
_setting_secrets: set[str] = set()  # secrets that settings have held in this process


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


def printable(text: str) -> str:
    r"""Return ``text`` without effect on a terminal, controls (C1 too) and directions escaped.

    Line feeds and tabs stay.

    >>> printable("red: \x1b[31m")
    'red: \\x1b[31m'
    """
    escaped = _CONTROL.sub(_escape, text)
    return _DIRECTION.sub(_escape, escaped)


def masked(text: str) -> str:
    """Return ``text`` with ``***`` for every known secret, and for the user in a URL.

    Known secrets are the values of environment variables, and of the settings that this process has
    read (:func:`masked_data`), if the name marks a secret, and the passwords of URLs in either.
    They are masked as they are, encoded for a URL, as JSON writes them, or in base64.

    >>> os.environ["EXAMPLE_API_KEY"] = "s3cret-value"
    >>> masked("http://me:pw@host refused s3cret-value")
    'http://***@host refused ***'
    """
    if "://" in text:
        text = _USERINFO.sub(MASK, text)
    secrets = set(_setting_secrets)
    for name, value in os.environ.items():
        if _is_secret_variable(name) and not _is_path(value):
            secrets.add(value)
        if "://" in value:
            secrets |= _url_credentials(value)
    for secret in sorted(secrets, key=len, reverse=True):
        for form in _forms(secret) if len(secret) >= _MIN_SECRET else ():
            text = text.replace(form, MASK)
    return text


@lru_cache(maxsize=256)
def _forms(secret: str) -> tuple[str, ...]:
    """Return the forms in which a text may contain a secret."""
    raw = secret.encode("utf-8", "surrogatepass")
    quoted = [quote(secret, safe=safe, errors="replace") for safe in ("", "/")]
    quoted += [json.dumps(secret)[1:-1], repr(secret)[1:-1]]
    coded = []
    for before in range(3):  # preceding bytes, such as a user name, shift the base64 text
        whole = b64encode(bytes(before) + raw).decode().rstrip("=")
        shared = (before + len(raw)) % 3 > 0
        middle = whole[-(-8 * before // 6) : len(whole) - shared]
        coded += [middle, middle.translate(_URL_SAFE)]
    return tuple(dict.fromkeys((secret, *quoted, *coded)))


def _url_credentials(text: str) -> set[str]:
    """Return the passwords in the URLs of a text, and the user names without a password."""
    credentials = set()
    for userinfo in _USERINFO.findall(text):
        user, colon, password = userinfo.partition(":")
        credentials |= {userinfo, password} if colon else {user}
    return credentials


def masked_data(value: JsonValue, key: str = "") -> JsonValue:
    """Return ``value`` without the secrets that its keys, or parameters in URLs, name.

    From then on :func:`masked` masks them in any text.

    >>> masked_data({"url": "http://me:pw@host", "api_key": "abc", "max_tokens": 9})
    {'url': 'http://***@host', 'api_key': '***', 'max_tokens': 9}
    """
    secret = _is_secret(key)
    if isinstance(value, dict):
        return {name: masked_data(item, key if secret else name) for name, item in value.items()}
    if isinstance(value, list):  # possibly a command line, in which a name precedes its value
        preceding = map(str, ["", *value])
        return [
            masked_data(item, name[2:] if name[:2] == "--" and _is_secret(name[2:]) else key)
            for item, name in zip(value, preceding, strict=False)
        ]
    if secret and value and not isinstance(value, bool):
        _setting_secrets.add(str(value))
        return MASK
    if not isinstance(value, str):
        return value
    parameters = {
        parameter
        for before, name, parameter in _PARAMETER.findall(value)
        if _is_secret(name) or (before != "--" and name.lower() in _SECRET_PARAMETERS)
    }
    _setting_secrets.update(_url_credentials(value), parameters)
    for parameter in parameters:
        value = value.replace(f"={parameter}", f"={MASK}")
    return masked(value)


def keep_secret(value: str) -> None:
    """Add ``value`` to the secrets that :func:`masked` masks."""
    _setting_secrets.add(value)


@cache
def _is_secret(name: str) -> bool:
    return _SECRET.fullmatch(name) is not None


@cache
def _is_secret_variable(variable: str) -> bool:
    """Return whether an environment variable of this name contains a secret.

    People choose such names freely.
    """
    return _SECRET_VARIABLE.fullmatch(variable) is not None


@cache
def _is_path(value: str) -> bool:
    """Return whether the value of a variable is the path of an existing file."""
    return os.path.exists(value)  # noqa: PTH110  # Path.exists raises for a long key


def tags(text: str) -> list[tuple[str, bool]]:
    """Return the name, and whether it closes, for each ``<tag>`` and ``</tag>`` in order."""
    return [(name, slash == "/") for slash, name in _TAG.findall(text)]


def format_error(error: BaseException) -> str:
    """Return an error as one line for a log: its type and its message, masked and cut."""
    try:
        whole = masked(
            str(error)[: _MAX_ERROR + _MAX_SECRET]
        )  # before the cut, which may split a key
        message = " ".join(whole[:_MAX_ERROR].split())
    except Exception:  # the error of a plugin may fail to format itself
        message = "it says nothing"
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
