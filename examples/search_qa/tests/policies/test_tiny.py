"""The tiny policy answers in ``eval`` what it answers in the evaluation of its training."""

from __future__ import annotations

from pathlib import Path

import torch
from evoprompt_search_qa import bank, protocol
from evoprompt_search_qa.commands import app
from evoprompt_search_qa.evaluation import measure
from evoprompt_search_qa.harness.evaluate import journal
from evoprompt_search_qa.tiny.agent import SearchAgent
from evoprompt_search_qa.tiny.policy import load_policy
from evoprompt_search_qa.tiny.task import SearchQa
from typer.testing import CliRunner

from evoprompt.agents.tasks import Trial
from evoprompt.experiments.trial import host_for

TASK = SearchQa()
torch.set_num_threads(1)


def test_eval_plays_the_agent_of_training_question_by_question(tmp_path: Path) -> None:
    instruction = bank.compose(bank.GOOD_IDEAS)
    (tmp_path / "instruction.txt").write_text(instruction)
    questions = TASK.questions("test")
    prompts = [protocol.plain_prompt(instruction, question.text) for question in questions]
    policy, tokenizer = load_policy(TASK.settings.policy)
    episodes = SearchAgent(policy, tokenizer, TASK.tool("test").search).run(prompts, greedy=True)
    trained = {
        question.id: (
            [(turn.action, turn.observation) for turn in episode.turns],
            measure(episode, question),
        )
        for question, episode in zip(questions, episodes, strict=True)
    }
    given = ("--methods", "search-r1", "--instruction", str(tmp_path / "instruction.txt"))
    result = CliRunner().invoke(app, ("eval", "--output", str(tmp_path / "out"), *given))
    assert result.exit_code == 0, result.output
    asked = {
        entry.id: ([(turn.action, turn.observation) for turn in entry.turns], entry.metrics)
        for data in ("1-hop", "2-hop", "3-hop")
        for entry in journal(tmp_path / "out", "search-r1", data).read().values()
    }
    assert asked == trained
    assert sum(metrics["tool_calls"] for _, metrics in asked.values()) > len(questions)
    trainee = host_for(TASK, {"name": "trl"}).prepare(TASK, Trial(0, tmp_path, 80, 80))
    found = trainee.evaluate(instruction, "test")
    right = sum(metrics["exact_match"] for _, metrics in asked.values())
    assert found.value == right / len(questions)
