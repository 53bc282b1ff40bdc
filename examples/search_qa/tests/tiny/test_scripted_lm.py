from __future__ import annotations

import json
from pathlib import Path

import pytest
from evoprompt_search_qa import bank
from evoprompt_search_qa.tiny import scripted_lm
from evoprompt_search_qa.tiny.task import SearchQa, SearchQaSettings

from evoprompt.experiments.cli import main
from evoprompt.lm import LanguageModel, LmSettings
from evoprompt.proposers.reflection import Reflection
from evoprompt.roles import ProposalRequest
from evoprompt.testing.openai_server import OpenAIServer
from evoprompt.testing.samples import request
from evoprompt.types import Assignment, Candidate, CandidateStats, Question, Trajectory, Turn

CONFIG = Path(__file__).parents[2] / "tiny-reflection.yaml"
TASK = SearchQa(SearchQaSettings(train=64, validation=20, test=20))
PARENT = Candidate("c0", {"instruction": TASK.seed_instructions[0]})


def failed(*turns: Turn) -> Trajectory:
    question = Question("q", "what is the mayor of the birthplace of bavu ?", ("zoruna",))
    return Trajectory(Assignment("a", question, PARENT, 1, "g"), 0.0, turns=turns)


def proposals(*failures: Trajectory, count: int = 3) -> list[tuple[str, str]]:
    asked = ProposalRequest(
        count, [CandidateStats(PARENT, 0.1)], failures, [], request().rng, required=TASK.required
    )
    with OpenAIServer([], scripted_lm.answer) as server:
        settings = {"model": "openai/scripted", "api_base": server.url}
        reflection = Reflection(LanguageModel(LmSettings.model_validate(settings)))
        return [(one.rationale, one.text) for one in reflection.propose(asked)]


def test_the_model_reads_what_went_wrong_and_writes_remedies_of_the_bank() -> None:
    single = failed(
        Turn("<search> mayor birthplace bavu </search>", "<information> no </information>"),
        Turn("<answer> kel </answer>"),
    )
    found = proposals(single, single, failed(Turn("<answer> kel </answer>")))
    remedies = {
        wording
        for cause in ("single search", "no search")
        for idea in bank.REMEDIES[cause]
        for wording in bank.SENTENCES[idea]
    }
    assert len(found) == 3
    for rationale, text in found:
        assert rationale == "The agent failed because of: single search, no search."
        assert text.startswith(PARENT.text)
        assert text.removeprefix(PARENT.text).strip() in remedies


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_example_trains_with_a_language_model_in_the_loop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with OpenAIServer([], scripted_lm.answer) as server:
        url = f"engine.proposer.lm.api_base={server.url}"
        arguments = ["run", str(CONFIG), "--smoke", "--arm", "coevolve", "--set", url]
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--output", str(tmp_path / "out")])
        assert ended.value.code == 0, capsys.readouterr()
        assert server.requests
    trial = tmp_path / "out" / "trials" / "coevolve" / "seed-0"
    log = (trial / "events.jsonl").read_text(encoding="utf-8")
    events = [json.loads(line) for line in log.splitlines()]
    proposed = [event for event in events if event["event"] == "proposed"]
    assert {event["proposer"] for event in proposed} == {"reflection"}
    assert any(event["candidate"] for event in proposed)
    assert any(event["event"] == "verified" for event in events)
    assert (trial / "lm-exchanges.jsonl").exists()
