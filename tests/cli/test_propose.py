from __future__ import annotations

from pathlib import Path

import pytest
from provider import openai, rewriting

from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.eventlog import EventLog
from evoprompt.experiments.cli import main
from evoprompt.storage import STATE_FILE, save_state
from evoprompt.testing.fakes import FakeTrainer, ScriptedPolicy
from evoprompt.testing.openai_server import OpenAIServer, chat_fields

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


def evoprompt(trial: Path, *arguments: str, lm: str = "openai/scripted") -> int:
    given = ["--parent", str(trial / "parent.txt"), "--failures", str(trial / "run")]
    with pytest.raises(SystemExit) as ended:
        main(["propose", *given, "--lm", lm, *arguments])
    return int(ended.value.code or 0)


def at(server: OpenAIServer) -> tuple[str, str]:
    return "--set", f"lm.api_base={server.url}"


def test_shows_the_analysis_the_candidates_and_the_verdicts(
    trial: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    candidates = [GOOD, "I'm sorry, I cannot help.", f"{GOOD} For instance, 14 is 7 plus 7."]
    with OpenAIServer([chat_fields(analysis=ANALYSIS, candidates=candidates)]) as server:
        assert evoprompt(trial, *at(server), "--count", "3") == 0
        [received] = server.requests
    assert "What is" in received.prompt
    assert PARENT in received.prompt
    shown = capsys.readouterr().out
    assert ANALYSIS in shown
    assert "candidate 1: passes screening" in shown
    assert "candidate 2: refused by the rule meta_talk" in shown
    assert "the text declines" in shown
    assert "2 of 3 candidates pass screening" in shown
    assert "expected: about 1 calls" in shown
    assert "spent: 1 calls, 120 tokens" in shown


def test_an_exchange_can_be_kept_and_shown_again_without_a_server(
    trial: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history, kept = ("--proposer", "history"), str(trial / "lm.jsonl")
    with OpenAIServer([], chat_fields(candidates=[GOOD])) as server:
        assert evoprompt(trial, *at(server), *history, "--set", f"lm.record={kept}") == 0
        assert "Score: 0" in server.requests[0].prompt
    first = capsys.readouterr().out
    assert "1 of 1 candidates" in first
    assert evoprompt(trial, *history, "--set", f"lm.replay={kept}") == 0
    assert capsys.readouterr().out == first


def test_narrowing_to_an_arm_without_failures_is_an_error(
    trial: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evoprompt(trial, "--arm", "static") == 2
    assert "no failures are remembered" in capsys.readouterr().err
    with OpenAIServer([], chat_fields(analysis=ANALYSIS, candidates=[GOOD])) as server:
        assert evoprompt(trial, "--arm", "coevolve", "--seed", "3", *at(server)) == 0
        assert "4 failures of" in capsys.readouterr().out
        assert evoprompt(trial, "--set", "episodes=6", *at(server)) == 0
        assert "6 failures of" in capsys.readouterr().out


def test_the_command_of_the_guide_works_under_the_very_name_it_shows(
    trial: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "proposers.md").read_text(encoding="utf-8")
    (command,) = (line for line in guide.splitlines() if line.startswith("$ evoprompt propose"))
    assert command == (
        "$ evoprompt propose --parent best.txt --failures RUN --lm openai/gpt-5-mini"
    )
    with openai(rewriting(GOOD)):
        assert evoprompt(trial, lm="openai/gpt-5-mini") == 0
    assert "1 of 1 candidates pass screening" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "lm", "key", "finding"),
    [
        ([], "openai/gpt-5-mini", "", "no OPENAI_API_KEY in the environment"),
        (["--set", "lm.temperature=0.5"], "openai/o3", "sk-test", "temperature=1.0"),
        ([], "openai/", "sk-test", "lm.model is 'openai/'"),
        (["--proposer", "nonsense"], "openai/gpt-5-mini", "sk-test", "unknown proposer"),
    ],
)
def test_whatever_is_wrong_ends_in_one_line(
    trial: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    lm: str,
    key: str,
    finding: str,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    if key:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    with OpenAIServer([], GOOD) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert evoprompt(trial, *arguments, lm=lm) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert told.count("\n") == 1
    assert finding in told
