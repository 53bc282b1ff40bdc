"""Credentials: recognition of secrets, by value and by form, and their replacement in texts."""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache, lru_cache
from typing import Any
from urllib.parse import quote

from pydantic import JsonValue

MASK = "***"
"""Text that replaces a credential."""

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
_PUBLIC_FORMS: Mapping[str, re.Pattern[str]] = {
    marker: re.compile(pattern, re.DOTALL)
    for marker, pattern in {
        "sk-": r"\bsk-(?=[\w-]{0,200}\d)[\w-]{16,}",  # OpenAI, Anthropic, OpenRouter
        "k_live_": r"\b[rsp]k_live_\w{10,}",  # Stripe
        "hf_": r"\bhf_[A-Za-z0-9]{16,}",  # Hugging Face
        "github_pat_": r"\bgithub_pat_\w{20,}",
        "gh": r"\bgh[pousr]_[A-Za-z0-9]{16,}",  # GitHub
        "glpat-": r"\bglpat-[\w-]{16,}",  # GitLab
        "AKIA": r"\bAKIA[A-Z0-9]{12,}\b",  # Amazon
        "ASIA": r"\bASIA[A-Z0-9]{12,}\b",
        "AIza": r"\bAIza[\w-]{30,}",  # Google
        "ya29.": r"\bya29\.[\w-]{20,}",
        "xox": r"\bxox[abeoprs]-[\w-]{10,}",  # Slack
        "gsk_": r"\bgsk_[A-Za-z0-9]{20,}",  # Groq
        "xai-": r"\bxai-[A-Za-z0-9]{20,}",
        "nvapi-": r"\bnvapi-[\w-]{20,}",
        "r8_": r"\br8_[A-Za-z0-9]{20,}",  # Replicate
        "npm_": r"\bnpm_[A-Za-z0-9]{20,}",
        "pypi-": r"\bpypi-[\w-]{20,}",
        "dop_v1_": r"\bdop_v1_[a-f0-9]{20,}",  # DigitalOcean
        "SG.": r"\bSG\.[\w-]{16,}\.[\w-]{16,}",  # SendGrid
        "eyJ": r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}(?:\.[\w-]*)?",  # JSON web tokens
        "earer ": r"(?<=[Bb]earer )(?=\S{0,200}\d)[\w.~+/=-]{16,}",
        "asic ": r"(?<=[Bb]asic )[A-Za-z0-9+/]{16,}={0,2}",
        "PRIVATE KEY": r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY(?: BLOCK)?-----.*?"
        r"(?:-----END [A-Z ]{0,20}PRIVATE KEY(?: BLOCK)?-----|\Z)",
        "@": r"(?<=[\s'\"=(<])(?!mailto:|sip:|xmpp:|acct:)[\w.+-]{1,64}:[^\s:@/'\"<>]{3,256}"
        r"(?=@[\w-]+(?:\.[\w-]+|:\d))",  # the user and the password before a host
    }.items()
}
"""Forms of credentials that are publicly documented, by a text that each of them contains."""
_URL_SAFE = str.maketrans("+/", "-_")
_PLACEHOLDERS = frozenset(
    [
        "none",
        "empty",
        "dummy",
        "fake",
        "unused",
        "ollama",
        "lm-studio",
        "not-needed",
        "no-key-needed",
        "placeholder",
    ]
)
"""Keys for local servers, which need none; as words they may stand in any text."""
_MAX_ITEMS = 200  # attributes or values of an object in which secrets are looked for
_MIN_SECRET = 6  # characters of a secret that is searched for; a shorter value may be any word
_setting_secrets: set[str] = set()  # secrets that settings have held in this process
_last_forms: dict[str, tuple[object, object, list[str]]] = {}
"""The last forms of all secrets, after the environment and the settings that they are of.

One tuple, since several threads read it.
"""


def masked(text: str) -> str:
    """Return ``text`` with ``***`` for every known secret, and for what has the form of a secret.

    Known secrets are the values of environment variables, and of the settings that this process has
    read (:func:`masked_data`), if the name marks a secret, the passwords of URLs in either, and the
    keys in models and clients (:func:`keep_secrets_of`). They are masked as they are, encoded for a
    URL, as JSON writes them, or in base64. The forms are those that providers document, such as
    ``hf_`` with letters and digits, private keys in PEM, and the user and the password of an
    address: a second net, for keys that this process has never been given.

    >>> os.environ["EXAMPLE_API_KEY"] = "s3cret-value"
    >>> masked("http://me:pw@host refused s3cret-value")
    'http://***@host refused ***'
    """
    return _masked(text, _secret_forms())


def masked_texts(value: Any) -> Any:
    """Return a value of the same type with each text in it masked; ``value`` if none is to mask.

    Args:
        value: a text, or a list, tuple, mapping or dataclass that may contain texts; anything else
            is returned unchanged.
    """
    forms = _secret_forms()
    whole = "\n".join(_texts_of(value))  # a secret of one text is one here, too
    return value if _masked(whole, forms) == whole else _masked_texts(value, forms)


def _texts_of(value: Any) -> Iterator[str]:
    """Yield the texts that :func:`_masked_texts` masks."""
    if isinstance(value, str):
        yield value
    elif type(value) in (list, tuple):
        for item in value:
            yield from _texts_of(item)
    elif isinstance(value, Mapping):
        yield from _texts_of([*value.values()])
    elif is_dataclass(value) and not isinstance(value, type):
        yield from _texts_of([getattr(value, name) for name in value.__dataclass_fields__])


def _masked_texts(value: Any, forms: Sequence[str]) -> Any:
    if isinstance(value, str):
        return _masked(value, forms)
    if type(value) in (list, tuple):
        return type(value)(_masked_texts(item, forms) for item in value)
    if isinstance(value, Mapping):
        return {name: _masked_texts(item, forms) for name, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        texts = {field.name: getattr(value, field.name) for field in fields(value)}
        return replace(value, **_masked_texts(texts, forms))
    return value


def _masked(text: str, forms: Sequence[str]) -> str:
    """Return ``text`` without ``forms``, the users of URLs and the publicly documented forms."""
    if "://" in text:
        text = _USERINFO.sub(MASK, text)
    for form in forms:
        text = text.replace(form, MASK)
    for marker, pattern in _PUBLIC_FORMS.items():
        if marker in text:
            text = pattern.sub(MASK, text)
    return text


def _secret_forms() -> list[str]:
    """Return the forms of all known secrets, those of long secrets first.

    They are computed anew if the environment or the settings have changed since the last call.
    Comparing the raw environment takes a microsecond, and decoding it 150.
    """
    environment = getattr(os.environ, "_data", None)  # a mapping; CPython's, not documented
    if environment is None:
        return _compute_forms()
    last = _last_forms.get("")
    if last is None or last[:2] != (environment, _setting_secrets):
        before = dict(environment), set(_setting_secrets)  # what changes now is seen next time
        last = _last_forms[""] = (*before, _compute_forms())
    return last[2]


def _compute_forms() -> list[str]:
    secrets = set(_setting_secrets)
    for name, value in os.environ.items():
        if _is_secret_variable(name) and not _is_path(value):
            secrets.add(value)
        if "://" in value:
            secrets |= _url_credentials(value)
    long_secrets = sorted((s for s in secrets if len(s) >= _MIN_SECRET), key=len, reverse=True)
    return [form for secret in long_secrets for form in _forms(secret)]


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


def keep_secrets_of(source: object, depth: int = 3) -> None:
    """Add the secrets in a model or a client to those that :func:`masked` masks.

    Args:
        source: an object such as ``dspy.LM`` or ``openai.OpenAI``, a mapping of settings, or a URL.
            Its attributes and values whose names mark a secret are secrets, and so are the
            passwords of URLs among the others.
        depth: number of levels of attributes and values that are read.
    """
    if isinstance(source, str) or type(source).__name__ == "URL":  # a text, or a URL of httpx
        _setting_secrets.update(_url_credentials(str(source)))
        return
    try:
        values = source if isinstance(source, Mapping) else vars(source)
    except TypeError:  # it has no attributes of its own
        return
    if len(values) > _MAX_ITEMS:  # a table of data
        return
    for name, value in list(values.items()):
        reveal = getattr(value, "get_secret_value", None)  # of pydantic
        secret = reveal() if callable(reveal) else value
        if isinstance(secret, str) and (callable(reveal) or _is_secret(str(name).lstrip("_"))):
            scheme, _, token = secret.partition(" ")
            if secret.lower() not in _PLACEHOLDERS:
                keep_secret(token if scheme.lower() in ("bearer", "basic") and token else secret)
        elif depth > 1:
            keep_secrets_of(value, depth - 1)


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
