"""The agent loop without Ray: a scripted replica answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from evoprompt_search_qa import protocol
from evoprompt_search_qa.tiny.task import SHIPPED_POLICY, SearchQa, SearchQaSettings
from evoprompt_search_qa.verl.agent_loop import GREEDY
from evoprompt_search_qa.verl.configuration import configuration
from evoprompt_search_qa.verl.tiny import CHAT_TEMPLATE, VerlSettings, tiny
from evoprompt_search_qa.verl.tiny_loop import TinyLoop
from omegaconf import DictConfig
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, DictConfigWrap
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

from evoprompt.tasks import Trial
from evoprompt.types import Question

TASK = SearchQa(SearchQaSettings(train=64, validation=20, test=20))


class Replica:
    """Says what it was told to say, and remembers what it was asked."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, actions: Sequence[str]) -> None:
        self._said = [tokenizer.encode(text, add_special_tokens=False) for text in actions]
        self.asked: list[Mapping[str, Any]] = []

    async def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any]
    ) -> TokenOutput:
        ids = self._said[len(self.asked)]
        self.asked.append({"request": request_id, "prompt": prompt_ids, **sampling_params})
        version = len(self.asked)
        return TokenOutput(
            token_ids=ids,
            log_probs=[-0.5] * len(ids),
            stop_reason="completed",
            num_preempted=0,
            extra_fields={"min_global_steps": version, "max_global_steps": version},
        )


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(SHIPPED_POLICY)
    found.chat_template = CHAT_TEMPLATE
    return found


@pytest.fixture
def question() -> Question:
    return next(q for q in TASK.questions("train") if q.row["hops"] == 1)


@cache
def composed() -> DictConfig:
    return configuration(tiny(VerlSettings(), Trial(0, Path("none"), 80, 80), SHIPPED_POLICY))


def play(
    tokenizer: PreTrainedTokenizerBase,
    question: Question,
    actions: Sequence[str],
    search: Any = None,
    **columns: object,
) -> tuple[AgentLoopOutput, Replica]:
    config = composed()
    replica = Replica(tokenizer, actions)
    row = {
        "raw_prompt": [
            {"role": "system", "content": TASK.seed_instructions[0]},
            {"role": "user", "content": question.text},
        ],
        "reward_model": {"ground_truth": {"target": list(question.answers)}},
        "session_id": 3,
        **columns,
    }

    async def run() -> AgentLoopOutput:
        loop = TinyLoop(
            trainer_config=DictConfigWrap(config),
            server_manager=replica,
            tokenizer=tokenizer,
            processor=None,
            dataset_cls=RLHFDataset,
            data_config=DictConfigWrap(config.data),
            world=TASK.settings.world,
            scale=1,
        )
        if search is not None:
            loop._retriever = search
        return await loop.run({"temperature": 1.0, "top_p": 1.0}, **row)

    return asyncio.run(run()), replica


def right(question: Question) -> tuple[str, str]:
    query = question.text.removeprefix("what is ").removesuffix(" ?")
    return f"<search> {query} </search>", f"<answer> {question.answers[0]} </answer>"


def test_tokens_of_an_observation_are_masked_and_nothing_else(
    tokenizer: PreTrainedTokenizerBase, question: Question
) -> None:
    query, answer = right(question)
    output, _ = play(tokenizer, question, [query, answer])
    actions = [
        token for token, mask in zip(output.response_ids, output.response_mask, strict=True) if mask
    ]
    shown = [
        token
        for token, mask in zip(output.response_ids, output.response_mask, strict=True)
        if not mask
    ]
    assert tokenizer.decode(actions) == f"{query} {answer}"
    passages = protocol.observation(TASK.retriever.search(query.split("> ")[1].split(" <")[0]))
    assert tokenizer.decode(shown) == passages
    assert len(output.response_logprobs or []) == len(output.response_ids)


def test_the_answer_is_scored_and_the_observation_is_not(
    tokenizer: PreTrainedTokenizerBase, question: Question
) -> None:
    query, answer = right(question)
    assert play(tokenizer, question, [query, answer])[0].reward_score == 1.0
    # The passages hold the answer, but the policy never gave it.
    output, _ = play(tokenizer, question, [query, "<answer> unknown </answer>"])
    assert output.reward_score == 0.0
    assert output.extra_fields["reward_extra_info"] == {"exact_match": 0.0}


def test_each_action_continues_what_was_said_and_shown(
    tokenizer: PreTrainedTokenizerBase, question: Question
) -> None:
    output, replica = play(tokenizer, question, [*right(question)])
    first, second = replica.asked
    plain = protocol.plain_prompt(TASK.seed_instructions[0], question.text)
    assert first["prompt"] == tokenizer(plain, add_special_tokens=False)["input_ids"]
    assert first["prompt"] == output.prompt_ids
    said = len(second["prompt"]) - len(first["prompt"])
    assert second["prompt"] == [*output.prompt_ids, *output.response_ids[:said]]
    assert first["max_tokens"] == protocol.TINY_LIMITS.turn_tokens
    assert first["stop_token_ids"] == [tokenizer.convert_tokens_to_ids(protocol.END_SEARCH)]
    assert (first["seed"], first["temperature"]) == (3, 1.0)
    assert output.extra_fields["min_global_steps"] == 1
    assert output.extra_fields["max_global_steps"] == 2


def test_an_evaluation_is_greedy(tokenizer: PreTrainedTokenizerBase, question: Question) -> None:
    _, replica = play(tokenizer, question, [*right(question)], **{GREEDY: True})
    assert [asked["temperature"] for asked in replica.asked] == [0.0, 0.0]


def test_one_search_too_many_ends_the_episode_without_an_answer(
    tokenizer: PreTrainedTokenizerBase, question: Question
) -> None:
    query, answer = right(question)
    most = protocol.TINY_LIMITS.calls
    output, replica = play(tokenizer, question, [*[query] * (most + 1), answer])
    assert len(replica.asked) == most + 1
    assert output.reward_score == 0.0


def test_a_broken_tool_leaves_no_trajectory(
    tokenizer: PreTrainedTokenizerBase, question: Question
) -> None:
    class Broken:
        def search(self, query: str) -> tuple[str, ...]:
            raise ConnectionError("the index is gone")

    with pytest.raises(ConnectionError, match="the index is gone"):
        play(tokenizer, question, [*right(question)], search=Broken())
