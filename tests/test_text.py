"""Texts of others are harmless in a terminal and hold no credentials."""

from __future__ import annotations

import pytest

from evoprompt.text import format_error, keep_secret, masked, masked_data, printable


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
    ],
)
def test_a_key_is_masked_in_the_forms_that_requests_give_it(text: str) -> None:
    keep_secret("s3cret/value+1")
    assert "***" in masked(text)
    assert len(masked(text)) < len(text)


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
    assert format_error(MuteError()) == "MuteError: it says nothing"


def test_the_key_of_a_setting_says_that_it_is_a_secret() -> None:
    secrets = {
        "hub_token": "abc",
        "api_key": 12345,
        "wandb": {"WANDB_API_KEY": "abc", "headers": {"Authorization": ["Basic abc"]}},
        "credentials": {"user": "me", "login": "abc"},
        "token": "abc",
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
