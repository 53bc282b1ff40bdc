"""Texts of others are harmless in a terminal and hold no credentials."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from evoprompt.support.credentials import keep_secret, masked, masked_data
from evoprompt.support.text import format_error, printable


def test_no_control_reaches_a_terminal() -> None:
    for code in (*range(0x9), *range(0xB, 0x20), *range(0x7F, 0xA0), 0x202E):
        shown = printable(f"a{chr(code)}b")
        assert chr(code) not in shown
        assert shown.isprintable()


def test_ordinary_text_is_shown_as_it_is() -> None:
    text = "Search \u6539\u8fdb \u00e9 first.\n\tThen answer."
    assert printable(text) == masked(text) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("https://user:pass@host:8000/v1", "https://***@host:8000/v1"),
        ("GET /v1?a=1&api_key=s3cret-key&b=2", "GET /v1?a=1&api_key=***&b=2"),
        ("{'x-api-key': 's3cret-key'} is wrong: s3cret-key", "{'x-api-key': '***'} is wrong: ***"),
        ("tok-of-settings, or its pw-of-url", "***, or its ***"),
        ("what looks like sk-learn-pipeline1 is none",) * 2,
        ("mail me@host, or see https://host/a@b",) * 2,
        ("on a short",) * 2,
    ],
)
def test_secrets_of_environment_and_settings_are_masked_wherever_they_stand(
    monkeypatch: pytest.MonkeyPatch, text: str, left: str
) -> None:
    monkeypatch.setenv("MY_API_KEY", "s3cret-key")
    monkeypatch.setenv("OTHER_TOKEN", "on")
    masked_data({"hub_token": "tok-of-settings", "address": "http://me:pw-of-url@host"})
    assert masked(text) == left


@pytest.mark.parametrize(
    "name",
    [
        *("OPENAI_API_KEY_2", "HF_TOKEN_WRITE", "GITHUB_PAT", "MYSQL_PWD", "PGPASSWORD"),
        *("KEY_PASSPHRASE", "MY_CREDENTIALS", "SLACK_WEBHOOK_URL", "AZURE_CONNECTION_STRING"),
        *("AUTH_COOKIE", "SENTRY_DSN", "BASIC_AUTH"),
    ],
)
def test_a_variable_is_secret_by_a_word_in_its_name(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "s3cret of it")
    assert masked("wrong: s3cret of it") == "wrong: ***"


def test_the_password_of_an_address_in_the_environment_is_masked_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://default:pw-of-db@host/x")
    assert masked("default: pw-of-db is wrong") == "default: *** is wrong"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN_PATH", str(Path(__file__))),
        ("MAX_TOKENS", "100000"),
        ("OLDPWD", "/no/such/folder"),
        ("TOKENIZERS_PARALLELISM", "sometimes"),
    ],
)
def test_a_variable_without_a_secret_hides_nothing(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert masked(value) == value


def test_a_key_is_masked_before_an_error_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_abcdefghijklmnop")
    said = format_error(ValueError("x" * 1_990 + "ghp_abcdefghijklmnop"))
    assert "ghp_" not in said


@pytest.mark.parametrize(
    "text",
    [
        "GET /?key=s3cret%2Fvalue%2B1",
        "Authorization: Basic OnMzY3JldC92YWx1ZSsx",
        "Authorization: Basic czNjcmV0L3ZhbHVlKzE=",
        f"Basic {b64encode(b'me:s3cret/value+1').decode()}",
        f"Basic {b64encode(b'you:s3cret/value+1:x').decode()}",
    ],
)
def test_a_key_is_masked_in_the_forms_that_requests_give_it(text: str) -> None:
    keep_secret("s3cret/value+1")
    assert "***" in masked(text)
    assert len(masked(text)) < len(text) - 12


@pytest.mark.parametrize("write", [json.dumps, repr])
def test_a_key_is_masked_as_programs_quote_it(write: Callable[[str], str]) -> None:
    keep_secret("s3cret\\\"'\u00e9")
    assert masked(write("s3cret\\\"'\u00e9"))[1:-1] == "***"


def test_keys_on_command_lines_and_in_cookies_are_masked() -> None:
    given = ["serve", "--api-key", "of-a-line", "--hf-token=of-an-option", "token", "search"]
    assert masked_data(given) == [  # type: ignore[arg-type]
        *("serve", "--api-key", "***", "--hf-token=***", "token", "search"),
    ]
    assert masked_data({"Set-Cookie": "session=1"}) == {"Set-Cookie": "***"}


def test_a_key_of_any_name_is_masked_once_it_was_read() -> None:
    keep_secret("of-an-unlisted-variable")
    assert masked("401: of-an-unlisted-variable is wrong") == "401: *** is wrong"


def test_the_user_beside_a_password_is_no_secret() -> None:
    masked_data({"url": "postgres://default:pw-98765@host"})
    assert masked("use the default placement, not pw-98765") == "use the default placement, not ***"


def test_an_error_is_told_in_one_line_even_if_it_cannot_speak() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert format_error(ValueError("a\nb \x1b[0m")) == "ValueError: a b \\x1b[0m"
    assert format_error(MuteError()) == "MuteError: no message"


def test_the_key_of_a_setting_says_that_it_is_a_secret() -> None:
    secrets = {
        "hub_token": "abc",
        "api_key": 12345,
        "wandb": {"WANDB_API_KEY": "abc", "headers": {"Authorization": ["Basic abc"]}},
        "credentials": {"user": "me", "login": "abc"},
        "token": "abc",
        "passphrase": "abc",
        "slack_webhook_url": "abc",
        "PRIVATE-TOKEN": "abc",
        "urls": ["https://host/?key=abc", "https://host/blob?sv=1&sig=abc"],
    }
    assert "abc" not in str(masked_data(secrets))  # type: ignore[arg-type]
    assert "12345" not in str(masked_data(secrets))  # type: ignore[arg-type]


def test_what_only_sounds_like_a_secret_stays() -> None:
    settings = {
        "api_key_env": "OPENAI_API_KEY",
        "max_tokens": 4096,
        "pad_token": "<pad>",
        "hub_token": True,
        "api_key": None,
        "tokenizer": "hf-internal-testing/tiny-random-gpt2",
        "keys": ["a", "b"],
    }
    assert masked_data(settings) == settings  # type: ignore[arg-type]
