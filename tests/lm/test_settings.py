from pathlib import Path

import pytest
from pydantic import ValidationError

from evoprompt.lm import LmSettings, Prices


def test_a_name_alone_is_a_model() -> None:
    assert LmSettings.model_validate("openai/some-model") == LmSettings(model="openai/some-model")


def test_a_key_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValidationError, match="api_key") as caught:
        LmSettings.model_validate({"model": "openai/some-model", "api_key": "sk-secret"})
    assert all("sk-secret" not in finding["msg"] for finding in caught.value.errors())


def test_recording_a_replay_is_refused() -> None:
    with pytest.raises(ValidationError, match="one of them"):
        LmSettings(model="m", record=Path("a"), replay=Path("b"))


def test_prices_are_per_million_tokens() -> None:
    assert Prices(input=0.5, output=2.0).usd(1_000_000, 500_000) == 1.5


@pytest.mark.parametrize("url", ["http://me:pw@host/v1", "http://host/v1?api_key=abcdef"])
def test_a_url_with_a_credential_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ValueError, match="with a credential") as raised:
        LmSettings.model_validate({"model": "openai/x", "api_base": url})
    told = str(raised.value).split("[type=", maxsplit=1)[0]
    assert "pw@" not in told
    assert "abcdef" not in told
