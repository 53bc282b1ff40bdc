from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from evoprompt_retrieval.client import BlockingRetriever, RetrievalClient
from evoprompt_search_qa import bank, protocol
from evoprompt_search_qa.tiny.agent import SearchAgent
from evoprompt_search_qa.tiny.policy import load_policy
from evoprompt_search_qa.tiny.task import SearchQa
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from evoprompt.agents import Episode
from evoprompt.agents.tasks import scored
from evoprompt.errors import InputError

TASK = SearchQa()
GOOD = bank.compose(bank.GOOD_IDEAS)
PROMPTS = [
    protocol.plain_prompt(GOOD, question.text) for question in TASK.questions("validation")[:8]
]


@pytest.fixture(scope="module")
def parts() -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    torch.set_num_threads(1)
    return load_policy(TASK.settings.policy)


@pytest.fixture(scope="module")
def agent(parts: tuple[LlamaForCausalLM, PreTrainedTokenizerFast]) -> SearchAgent:
    return SearchAgent(*parts, TASK.retriever.search)


@pytest.fixture(scope="module")
def sampled(agent: SearchAgent) -> list[Episode]:
    torch.manual_seed(0)
    return agent.run(PROMPTS, 5)


def test_logprobs_equal_those_of_a_plain_forward_pass(
    parts: tuple[LlamaForCausalLM, PreTrainedTokenizerFast], sampled: list[Episode]
) -> None:
    policy, _ = parts
    for episode in sampled:
        start = len(episode.prompt_ids)
        ids = torch.tensor([[*episode.prompt_ids, *episode.completion_ids]])
        with torch.no_grad():
            scores = torch.log_softmax(policy(ids).logits[0, start - 1 : -1], -1)
        expected = scores.gather(1, ids[0, start:, None])[:, 0]
        mask = torch.tensor(episode.policy_mask, dtype=torch.bool)
        torch.testing.assert_close(
            torch.tensor(episode.logprobs)[mask], expected[mask], atol=1e-4, rtol=1e-4
        )


def test_greedy_episodes_take_the_most_likely_token_everywhere(
    parts: tuple[LlamaForCausalLM, PreTrainedTokenizerFast], agent: SearchAgent
) -> None:
    policy, _ = parts
    for episode in agent.run(PROMPTS[:3], greedy=True):
        start = len(episode.prompt_ids)
        ids = torch.tensor([[*episode.prompt_ids, *episode.completion_ids]])
        with torch.no_grad():
            best = policy(ids).logits[0, start - 1 : -1].argmax(-1).tolist()
        for token, likely, chosen in zip(
            episode.completion_ids, best, episode.policy_mask, strict=True
        ):
            assert token == likely or not chosen


def test_the_mask_separates_actions_from_observations(
    parts: tuple[LlamaForCausalLM, PreTrainedTokenizerFast], sampled: list[Episode]
) -> None:
    _, tokenizer = parts
    assert any(episode.tool_calls > 1 for episode in sampled)
    for episode in sampled:
        assert len(episode.completion_ids) == len(episode.policy_mask) == len(episode.logprobs)
        for wanted, texts in (
            (1, [turn.action for turn in episode.turns]),
            (0, [turn.observation for turn in episode.turns]),
        ):
            ids = [
                token
                for token, mark in zip(episode.completion_ids, episode.policy_mask, strict=True)
                if mark == wanted
            ]
            said = tokenizer.batch_decode([ids], skip_special_tokens=True)[0]
            assert said.split() == " ".join(texts).split()
        assert all(
            value == 0.0
            for value, mark in zip(episode.logprobs, episode.policy_mask, strict=True)
            if not mark
        )


def test_sampling_repeats_from_the_seed_and_greedy_leaves_the_generator_alone(
    agent: SearchAgent, sampled: list[Episode]
) -> None:
    torch.manual_seed(0)
    assert agent.run(PROMPTS, 5) == sampled
    before = torch.get_rng_state()
    assert agent.run(PROMPTS[:2], greedy=True) == agent.run(PROMPTS[:2], greedy=True)
    assert torch.equal(torch.get_rng_state(), before)


def test_greedy_episodes_do_not_depend_on_who_else_is_played(agent: SearchAgent) -> None:
    together = agent.run(PROMPTS, greedy=True)
    alone = [agent.run([prompt], greedy=True)[0] for prompt in PROMPTS]
    assert [episode.completion_ids for episode in together] == [
        episode.completion_ids for episode in alone
    ]


def test_each_prompt_gets_its_number_of_rollouts(
    agent: SearchAgent, sampled: list[Episode]
) -> None:
    assert [episode.prompt_ids for episode in sampled[::5]] == [
        episode.prompt_ids for episode in agent.run(PROMPTS, greedy=True)
    ]
    assert len(agent.run(PROMPTS[:3], [1, 4, 2])) == 7


def test_a_broken_tool_ends_the_episode_as_failed(
    parts: tuple[LlamaForCausalLM, PreTrainedTokenizerFast],
) -> None:
    def broken(query: str) -> Sequence[str]:
        raise ConnectionError(query)

    episodes = SearchAgent(*parts, broken).run(PROMPTS, greedy=True)
    ends = {episode.end for episode in episodes}
    assert "failed" in ends
    assert all(episode.tool_calls == 0 and episode.completion_ids for episode in episodes)


def test_searching_ends_after_the_last_allowed_search(
    parts: tuple[LlamaForCausalLM, PreTrainedTokenizerFast],
) -> None:
    exhausting = protocol.plain_prompt(
        bank.compose(["one-fact", "follow", "exhaust"]), TASK.questions("validation")[0].text
    )
    torch.manual_seed(0)
    for episode in SearchAgent(*parts, TASK.retriever.search).run([exhausting], 30):
        assert episode.tool_calls <= protocol.TINY_LIMITS.calls
        asked = protocol.find_query(episode.turns[-1].action) is not None
        assert asked is (episode.end == "out of turns")


def test_a_prompt_without_room_for_the_episode_is_refused(agent: SearchAgent) -> None:
    with pytest.raises(InputError, match="tokens, but must have at most"):
        agent.run(["the " * 300])


def test_sampled_frequencies_follow_the_policy(
    parts: tuple[LlamaForCausalLM, PreTrainedTokenizerFast], agent: SearchAgent
) -> None:
    policy, _ = parts
    torch.manual_seed(1)
    episodes = agent.run(PROMPTS[:1], 600)
    with torch.no_grad():
        chances = policy(torch.tensor([episodes[0].prompt_ids])).logits[0, -1].softmax(-1)
    token = int(chances.argmax())
    expected = float(chances[token])
    found = sum(episode.completion_ids[0] == token for episode in episodes) / len(episodes)
    assert abs(found - expected) < 4 * (expected * (1 - expected) / len(episodes)) ** 0.5 + 1e-3


def test_without_the_tool_a_query_ends_the_episode(
    parts: tuple[LlamaForCausalLM, PreTrainedTokenizerFast],
) -> None:
    agent = SearchAgent(*parts, pytest.fail, max_searches=0)
    for episode in agent.run(PROMPTS, greedy=True):
        assert len(episode.turns) == 1
        assert all(episode.policy_mask)
        asked = protocol.find_query(episode.turns[0].action) is not None
        assert asked == (episode.end == "out of turns")


def test_no_tensor_is_made_on_another_device_than_the_policys(
    agent: SearchAgent, sampled: list[Episode]
) -> None:
    torch.manual_seed(0)
    # Whatever does not follow the policy lands on "meta", where it cannot meet its weights.
    with torch.device("meta"):
        elsewhere = agent.run(PROMPTS, 5)
    assert [episode.turns for episode in elsewhere] == [episode.turns for episode in sampled]


def test_a_rollout_whose_server_is_down_ends_unscored() -> None:
    task = SearchQa()
    question = task.questions("validation")[0]
    prompt = protocol.plain_prompt(bank.compose(bank.GOOD_IDEAS), question.text)
    down = RetrievalClient("http://127.0.0.1:1", attempts=2, pause=0.001)
    with BlockingRetriever(down) as search:
        episodes = SearchAgent(*load_policy(task.settings.policy), search).run(
            [prompt], greedy=True
        )
    assert [episode.end for episode in episodes] == ["failed"]
    assert scored(TASK, episodes[0], question) is None
