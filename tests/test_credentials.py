"""A key in an object, a URL, a feedback, a tool's result or an error reaches no file or message."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import openai
import pytest
from optimizing import SEED, Writes, learn, program

from evoprompt import Engine, EngineConfig, InputError, ProposalRequest, Turn
from evoprompt.log.evaluation import Score
from evoprompt.log.eventlog import EventLog
from evoprompt.support.credentials import keep_secrets_of, masked
from evoprompt.testing.samples import question
from evoprompt.types import Trajectory
from evoprompt.verifiers import Unverified

BODY = "Zx81Qm47Vb92Kc35Tn60Rj18Hd73Wp29"
FORMS = {  # put together here, so that no scanner of repositories takes them for keys
    "OpenAI": "sk-" + "proj-" + BODY,
    "Anthropic": "sk-" + "ant-api03-" + BODY,
    "Hugging Face": "hf_" + BODY,
    "GitHub": "ghp_" + BODY,
    "GitHub, fine-grained": "github_pat_" + BODY,
    "GitLab": "glpat-" + BODY,
    "Amazon": "AKIA" + "ZX81QM47VB92KC35",
    "Google": "AIza" + "Sy" + BODY,
    "Slack": "xoxb-" + BODY,
    "JSON web token": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0." + BODY,
    "bearer": "Authorization: Bearer " + BODY,
    "private key": "-----BEGIN PRIVATE " + f"KEY-----\n{BODY}\n-----END PRIVATE " + "KEY-----",
    "URL": f"postgres://admin:{BODY}@database.example/table",
    "address without a scheme": f"log in as admin:{BODY}@database.example",
}
SECRETS = (BODY, "ZX81QM47VB92KC35")
LEAK = "the server said: " + " | ".join(FORMS.values())


def holders(folder: Path, *secrets: str) -> list[Path]:
    """Return the files that hold one of the secrets."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if any(s.encode() in path.read_bytes() for s in secrets)]


@pytest.mark.parametrize("name", FORMS)
def test_documented_forms_are_masked_without_having_been_given(name: str) -> None:
    text = masked(f"It failed with {FORMS[name]}, so try again.")
    assert not any(secret in text for secret in SECRETS)
    assert text.startswith("It failed with ")
    assert text.endswith("try again.")


@pytest.mark.parametrize(
    "text",
    [
        "Use sk-learn-compatible estimators, and the hf_transfer package.",
        "Ratio 3:1@home; write to mailto:me@example.com or me@example.com.",
        "The basic approach: bear with the bearer of news, e.g. AKIA or ASIAN food.",
        "Commit 4a04ba0b9d6c2f1e8a7b5c3d, key: value, eyJ is the start of a token.",
    ],
)
def test_words_that_resemble_a_form_stay(text: str) -> None:
    assert masked(text) == text


@pytest.mark.lm
def test_keys_in_models_and_clients_are_masked_by_value() -> None:
    import dspy

    keep_secrets_of(dspy.LM("openai/x", api_key="the key of a model", headers={"x-api-key": "h e"}))
    keep_secrets_of(openai.OpenAI(api_key="the key of a client", base_url="http://a:pw-of-a@b/v1"))
    text = "the key of a model, the key of a client, pw-of-a"
    assert masked(text) == "***, ***, ***"


def test_a_placeholder_for_a_local_server_is_no_secret() -> None:
    keep_secrets_of({"api_key": "ollama"})
    assert masked("Install ollama first.") == "Install ollama first."


class Failing(Writes):
    """A proposer whose request holds no secret, and whose error does."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    def propose(self, request: ProposalRequest) -> Any:
        self.requests.append(repr(request))
        raise RuntimeError(LEAK)


@pytest.mark.parametrize("place", ["feedback", "output", "program", "metric"])
def test_no_file_or_warning_of_an_optimization_holds_one(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = 0

    def leaking(instruction: str, example: str) -> str:
        nonlocal calls
        calls += 1
        if place == "program" and calls % 2 == 0:
            raise ValueError(LEAK)
        return program(instruction, example) + (LEAK if place == "output" else "")

    def scored(example: str, output: str) -> Any:
        if place == "metric" and calls % 2 == 0:
            raise ValueError(LEAK)
        reward = float(output.removesuffix(LEAK) == "right")
        return Score(reward, LEAK if place == "feedback" else "wrong")

    proposer = Failing()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(InputError) as error:
            learn(leaking, scored, proposer=proposer, directory=tmp_path / "run", budget=60)
    shown = "".join(capsys.readouterr()) + str(error.value)
    shown += "".join(str(warning.message) for warning in caught) + "".join(proposer.requests)
    assert not any(secret in shown for secret in SECRETS)
    assert holders(tmp_path, *SECRETS) == []


def test_no_event_or_state_of_a_training_holds_one(tmp_path: Path) -> None:
    proposer = Failing()
    engine = Engine(
        [SEED],
        config=EngineConfig(evolve_every=2),
        proposer=proposer,
        verifier=Unverified(),
        log=EventLog(tmp_path / "events.jsonl"),
    )
    questions = [question(number) for number in range(4)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(4):
            assignments = engine.ask(questions, 4)
            engine.tell(
                [
                    Trajectory(assignment, 0.0, place, (Turn("an action", LEAK),), feedback=LEAK)
                    for assignment in assignments
                    for place in range(assignment.rollouts)
                ]
            )
            engine.evolve(lambda assignments: [])
    state = json.dumps(engine.state_dict())
    shown = state + "".join(proposer.requests) + "".join(str(w.message) for w in caught)
    assert proposer.requests
    assert not any(secret in shown for secret in SECRETS)
    assert holders(tmp_path, *SECRETS) == []
