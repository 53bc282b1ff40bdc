"""No key goes to a server that it is not for: one rule at every front door, by recorded headers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evoprompt import InputError
from evoprompt.lm.keys import key_variable
from evoprompt.testing.openai_server import OpenAIServer, Text, chat_fields

pytestmark = [pytest.mark.endpoint, pytest.mark.lm]

KEY, OWN_KEY = "sk-of-openai", "sk-of-the-server"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OWN_KEY", OWN_KEY)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer([], Text(chat_fields(analysis="It hurries.", candidates=["Add."]))) as server:
        yield server


def ask_program(url: str, key: str | None, folder: Path) -> None:
    from evoprompt.optimizer.endpoint import Endpoint

    asyncio.run(_ask(Endpoint("mine", url, key=key)))


async def _ask(endpoint: Callable[..., object]) -> None:
    await endpoint("Answer.", {"question": "1+1?"})  # type: ignore[misc]


def ask_writer(url: str, key: str | None, folder: Path) -> None:
    from evoprompt.lm.client import LanguageModel, LmCall, verbatim
    from evoprompt.lm.settings import LmSettings

    settings = LmSettings(model="openai/mine", api_base=url, api_key_env=key)
    LanguageModel(settings).ask([LmCall(verbatim, {"prompt": "Hello"})])


def ask_proposer(url: str, key: str | None, folder: Path) -> None:
    import evoprompt

    lm = {"model": "openai/mine", "api_base": url, "api_key_env": key}
    evoprompt.optimize(
        "Answer.",
        [{"question": f"{number}+1?", "answer": str(number + 1)} for number in range(4)],
        lambda example, output: float(output == example["answer"]),
        program=lambda instruction, example: "no idea",
        valset=[{"question": "9+1?", "answer": "10"}],
        lm=lm,
        budget=12,
        options=evoprompt.OptimizeOptions(progress=False, patience=1),
    )


def ask_gateway(url: str, key: str | None, folder: Path) -> None:
    import httpx
    from contract_runs import BRIEF

    from evoprompt.gateway import Gateway, GatewaySettings
    from evoprompt.types import Question

    engine = BRIEF.build()
    settings = GatewaySettings(upstream=url, directory=folder / "gateway", rollouts=2, key=key)
    with Gateway(engine, settings) as gateway:
        conversation = gateway.conversation(Question("q", "1+1?"), "g")
        body = {"model": "mine", "messages": [{"role": "user", "content": "1+1?"}]}
        headers = {"Authorization": f"Bearer {conversation}"}
        httpx.post(f"{gateway.url}/chat/completions", json=body, headers=headers)


DOORS = [ask_program, ask_writer, ask_proposer, ask_gateway]


@pytest.mark.parametrize("ask", DOORS)
def test_the_key_of_openai_is_not_sent_to_a_server_of_ones_own(
    ask: Callable[[str, str | None, Path], None], server: OpenAIServer, tmp_path: Path
) -> None:
    ask(server.url, None, tmp_path)
    assert server.requests
    assert {request.authorization for request in server.requests} <= {"", "Bearer none"}


@pytest.mark.parametrize("ask", DOORS)
def test_a_key_that_is_named_for_a_server_is_sent_there(
    ask: Callable[[str, str | None, Path], None], server: OpenAIServer, tmp_path: Path
) -> None:
    ask(server.url, "OWN_KEY", tmp_path)
    assert {request.authorization for request in server.requests} == {f"Bearer {OWN_KEY}"}


@pytest.mark.parametrize("name", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
@pytest.mark.parametrize("ask", DOORS)
def test_the_key_of_the_environment_is_sent_to_the_address_of_the_environment(
    ask: Callable[[str, str | None, Path], None],
    name: str,
    server: OpenAIServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(name, server.url)
    ask(server.url, None, tmp_path)
    assert {request.authorization for request in server.requests} == {f"Bearer {KEY}"}


@pytest.mark.parametrize(
    ("address", "provider", "variable"),
    [
        ("https://api.openai.com/v1", None, "OPENAI_API_KEY"),
        ("https://eu.api.openai.com/v1/", "OPENAI", "OPENAI_API_KEY"),
        ("https://api.anthropic.com", None, "ANTHROPIC_API_KEY"),
        ("https://api.anthropic.com", "OPENAI", None),
        ("http://api.openai.com/v1", None, None),
        ("https://api.openai.com.example.org/v1", None, None),
        ("https://myopenai.com/v1", None, None),
        ("https://api.openai.com@example.org/v1", None, None),
        ("http://127.0.0.1:8000/v1", None, None),
        ("http://[::1", None, None),
        (None, "GEMINI", "GEMINI_API_KEY"),
        ("https://example.org", "GEMINI", None),
    ],
)
def test_an_address_gets_the_key_of_its_owner(
    address: str | None, provider: str | None, variable: str | None
) -> None:
    assert key_variable(address, provider=provider) == variable
    assert key_variable(address, "OWN_KEY", provider) == "OWN_KEY"


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8000", "localhost:8000/v1", "http://a/v1/chat/completions/"]
)
def test_a_base_url_that_is_none_is_refused_before_a_request(url: str) -> None:
    from evoprompt.lm.settings import LmSettings
    from evoprompt.optimizer.endpoint import Endpoint

    with pytest.raises(InputError, match="required: the base URL of a server"):
        Endpoint("mine", url)
    with pytest.raises(ValueError, match=r"lm\.api_base is .*required: the base URL of a server"):
        LmSettings(model="openai/mine", api_base=url)
