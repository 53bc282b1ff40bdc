from __future__ import annotations

from pathlib import Path

import pytest

from evoprompt.checkpoint import STATE_FILE, save_state
from evoprompt.cli import main
from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.events import EventLog
from evoprompt.testing.fakes import FakeTrainer, ScriptedPolicy
from evoprompt.testing.openai_server import OpenAIServer, Status, chat_fields

pytestmark = pytest.mark.lm

PARENT = "Write <answer>the sum</answer>."
ANALYSIS = "The agent never checks what it adds up."
GOOD = "Check the sum twice, then write <answer>the sum</answer>."


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of one trial whose agent always fails; the current directory holds its parent."""
    monkeypatch.setenv("COLUMNS", "100")
    directory = tmp_path / "run" / "trials" / "coevolve" / "seed-3"
    checkpoint = directory / "checkpoints" / "checkpoint-4"
    checkpoint.mkdir(parents=True)
    engine = Engine(
        [PARENT], config=EngineConfig(population_size=1), log=EventLog(directory / "events.jsonl")
    )
    FakeTrainer(ScriptedPolicy(lambda _: 0.0)).train(engine, steps=4)
    save_state(checkpoint / STATE_FILE, engine.state_dict())
    (tmp_path / "parent.txt").write_text(PARENT + "\n", encoding="utf-8")
    return tmp_path


def evoprompt(trial: Path, *arguments: str) -> int:
    given = ["--parent", str(trial / "parent.txt"), "--failures", str(trial / "run")]
    with pytest.raises(SystemExit) as ended:
        main(["propose", *given, "--lm", "openai/scripted", *arguments])
    return int(ended.value.code or 0)


def test_shows_the_analysis_the_candidates_and_the_verdicts(
    trial: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    candidates = [GOOD, "I'm sorry, I cannot help.", f"{GOOD} For instance, 14 is 7 plus 7."]
    with OpenAIServer([chat_fields(analysis=ANALYSIS, candidates=candidates)]) as server:
        assert evoprompt(trial, "--api-base", server.url, "--count", "3") == 0
        [received] = server.requests
    assert "What is" in received.prompt
    assert PARENT in received.prompt
    shown = capsys.readouterr().out
    assert ANALYSIS in shown
    assert "candidate 1: passes the firewall" in shown
    assert "candidate 2: refused by the rule refusal" in shown
    assert "the text declines" in shown
    assert "2 of 3 candidates pass the firewall" in shown
    assert "expected: about 1 calls" in shown
    assert "spent: 1 calls, 120 tokens" in shown


def test_every_proposer_can_be_asked(trial: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with OpenAIServer([], chat_fields(candidates=[GOOD])) as server:
        assert evoprompt(trial, "--api-base", server.url, "--proposer", "history") == 0
        assert "Score: 0" in server.requests[0].prompt
    assert "1 of 1 candidates" in capsys.readouterr().out


def test_an_exchange_can_be_kept_and_shown_again_without_a_server(
    trial: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = str(trial / "lm.jsonl")
    with OpenAIServer([chat_fields(analysis=ANALYSIS, candidates=[GOOD])]) as server:
        assert evoprompt(trial, "--api-base", server.url, "--record", kept) == 0
    first = capsys.readouterr().out
    assert evoprompt(trial, "--replay", kept) == 0
    assert capsys.readouterr().out == first


def test_narrowing_to_an_arm_without_failures_is_an_error(
    trial: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evoprompt(trial, "--arm", "static") == 2
    assert "no failures are remembered" in capsys.readouterr().err
    with OpenAIServer([], chat_fields(analysis=ANALYSIS, candidates=[GOOD])) as server:
        arguments = ["--arm", "coevolve", "--seed", "3", "--api-base", server.url]
        assert evoprompt(trial, *arguments) == 0


def test_a_model_that_is_down_is_an_error(trial: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with OpenAIServer([], Status(401)) as server:
        assert evoprompt(trial, "--api-base", server.url) == 2
    assert "LMAuthError" in capsys.readouterr().err
