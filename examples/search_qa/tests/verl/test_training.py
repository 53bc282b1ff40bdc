"""The search agent under a real veRL on a CPU: Ray, FSDP, TransferQueue, agent loops."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from evoprompt_search_qa import protocol, scoring
from evoprompt_search_qa.tiny.task import SHIPPED_POLICY, SearchQa, SearchQaSettings
from transformers import AutoTokenizer, LlamaForCausalLM, PreTrainedTokenizerFast

from evoprompt.agents import play
from evoprompt.agents.tasks import Evaluation
from evoprompt.experiments.answers import methods_of
from evoprompt.types import Turn

pytestmark = [pytest.mark.verl, pytest.mark.nightly]

TASK = SearchQa(SearchQaSettings(train=32, validation=10, test=20))  # those of training_run.py
SCRIPT = Path(__file__).with_name("training_run.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder)],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    result: dict[str, Any] = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    return result


@pytest.fixture(scope="module")
def decode() -> Any:
    return AutoTokenizer.from_pretrained(SHIPPED_POLICY).decode


def spans(trajectory: dict[str, Any], decode: Any) -> list[tuple[int, str]]:
    """What veRL trains on (1) and what it does not (0), as text in order."""
    pairs = zip(trajectory["response_mask"], trajectory["responses"], strict=True)
    return [
        (mask, decode([token for _, token in same], skip_special_tokens=True))
        for mask, same in groupby(pairs, key=lambda pair: pair[0])
    ]


def test_veRL_trains_on_actions_and_on_no_token_of_an_observation(  # noqa: N802
    found: dict[str, Any], decode: Any
) -> None:
    observations = 0
    for trajectory in found["trained"]:
        assert trajectory["loss_mask"] == trajectory["response_mask"]
        told = spans(trajectory, decode)
        assert told[0][0] == 1
        for (_, action), (mask, shown) in pairwise(told):
            if mask:
                continue
            query = protocol.find_query(action)
            assert query is not None
            assert shown == protocol.observation(TASK.retriever.search(query))
            observations += 1
        actions = "".join(text for mask, text in told if mask)
        assert protocol.END_INFORMATION not in actions
    assert observations > 0


def test_the_reward_is_the_exact_match_of_what_the_policy_wrote(
    found: dict[str, Any], decode: Any
) -> None:
    answers = {q.text: q.answers for q in TASK.questions("train")}
    for trajectory in found["trained"]:
        prompt = decode(trajectory["prompts"])
        asked = prompt.split(protocol.QUESTION)[1].split(protocol.RESPONSE)[0].strip()
        turns = [Turn(text) for mask, text in spans(trajectory, decode) if mask]
        assert sum(trajectory["rm_scores"]) == scoring.exact_match(turns, answers[asked])
        assert prompt.startswith(TASK.seed_instructions[0])


def test_every_step_has_its_groups_and_their_advantages(found: dict[str, Any]) -> None:
    steps = Counter(trajectory["step"] for trajectory in found["trained"])
    assert steps == {1: 12, 2: 12, 3: 12, 4: 12}
    groups: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for trajectory in found["trained"]:
        uid = trajectory["key"].rsplit("_", 2)[0]
        groups.setdefault((trajectory["step"], uid), []).append(trajectory)
    assert [len(group) for group in groups.values()] == [3] * 16
    for group in groups.values():
        rewards = torch.tensor([sum(trajectory["rm_scores"]) for trajectory in group])
        wanted = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
        for trajectory, advantage in zip(group, wanted.tolist(), strict=True):
            pairs = zip(trajectory["advantages"], trajectory["response_mask"], strict=True)
            assert all(abs(value - advantage * mask) < 1e-3 for value, mask in pairs)


def test_a_stopped_training_resumes_where_it_was(found: dict[str, Any], folder: Path) -> None:
    assert found["stopped_after"] == 2
    assert [rollouts for rollouts, _ in found["curve"]] == [0, 24]
    assert [rollouts for rollouts, _ in found["curve_resumed"]] == [48]
    assert found["rollouts"] == 48
    lines = (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
    told = [event for event in map(json.loads, lines) if event["event"] == "told"]
    assert [event["step"] for event in told] == [1, 2, 3, 4]


def tested(
    policy: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, instruction: str
) -> Evaluation:
    """The greedy result on the test questions, outside of veRL."""
    sampler = TASK.sampler(policy, tokenizer, 1.0)
    assert sampler is not None
    questions = TASK.questions("test")
    agent = methods_of(TASK, instruction)["agent"]
    plays = [agent.begin(tokenizer, TASK.limits, one, agent.instruction) for one in questions]
    episodes = play(plays, sampler, TASK.caller("test"), greedy=True)
    scores = [TASK.score(one, asked) for one, asked in zip(episodes, questions, strict=True)]
    return Evaluation.of(scores, TASK.headline)


def test_the_saved_policy_answers_alone_as_the_replicas_did(
    found: dict[str, Any], folder: Path
) -> None:
    policy = LlamaForCausalLM.from_pretrained(folder / "policy")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder / "policy")
    alone = tested(policy, tokenizer, found["instruction"])
    together = Evaluation.model_validate(found["tested"])
    assert together.value == pytest.approx(alone.value)
    assert together.by_stratum == pytest.approx(dict(alone.by_stratum))
    assert together.metrics == pytest.approx({**alone.metrics, "unscored": 0.0})
    before = LlamaForCausalLM.from_pretrained(SHIPPED_POLICY)
    changed = [
        not torch.equal(old, new)
        for old, new in zip(before.parameters(), policy.parameters(), strict=True)
    ]
    assert all(changed)
