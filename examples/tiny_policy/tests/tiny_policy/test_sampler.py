from __future__ import annotations

import torch
from evoprompt_tiny.pretrain import Pretraining, build_policy
from evoprompt_tiny.sampler import CacheSampler
from evoprompt_tiny.vocabulary import build_tokenizer

from evoprompt.agents import Action, Broken, Episode, Sampling

TOKENIZER = build_tokenizer(["a door"], context=64)
POLICY = build_policy(Pretraining(hidden=16, intermediate=32, layers=2, heads=2), TOKENIZER)
PROMPTS = [[5], [5, 6, 7], [5, 6, 7], [8, 9]]
SAMPLING = Sampling(max_tokens=6)


def played(prompts: list[list[int]], *, greedy: bool) -> list[Episode]:
    """Episodes of two actions with an observation between them; every second one ends early."""
    sampler = CacheSampler(POLICY, TOKENIZER, response_tokens=20)
    episodes = [Episode(list(ids)) for ids in prompts]
    for part in (episodes, episodes[::2]):
        for episode, action in zip(part, sampler(part, SAMPLING, greedy=greedy), strict=True):
            assert isinstance(action, Action)
            episode.add_action(action, "")
        for episode in part:
            episode.show([20, 21, 22][: len(episode.prompt_ids)], "shown")
    return episodes


def test_logprobs_equal_those_of_a_plain_forward_pass() -> None:
    torch.manual_seed(0)
    for episode in played(PROMPTS, greedy=False):
        start = len(episode.prompt_ids)
        ids = torch.tensor([episode.context])
        with torch.no_grad():
            scores = torch.log_softmax(POLICY(ids).logits[0, start - 1 : -1], -1)
        expected = scores.gather(1, ids[0, start:, None])[:, 0]
        own = torch.tensor(episode.policy_mask, dtype=torch.bool)
        assert own.any()
        torch.testing.assert_close(torch.tensor(episode.logprobs)[own], expected[own])


def test_greedy_takes_the_most_likely_token_whoever_else_is_played() -> None:
    together = played(PROMPTS, greedy=True)
    for number, episode in enumerate(together):
        start = len(episode.prompt_ids)
        with torch.no_grad():
            best = POLICY(torch.tensor([episode.context])).logits[0, start - 1 : -1].argmax(-1)
        marked = zip(episode.completion_ids, best.tolist(), episode.policy_mask, strict=True)
        assert all(token == likely for token, likely, own in marked if own)
        if number % 2 == 0:
            (alone,) = played([PROMPTS[number]], greedy=True)
            assert alone.completion_ids == episode.completion_ids


def test_frequencies_follow_the_policy() -> None:
    torch.manual_seed(1)
    sampler = CacheSampler(POLICY, TOKENIZER, response_tokens=20)
    episodes = [Episode([5, 6]) for _ in range(2000)]
    actions = sampler(episodes, Sampling(max_tokens=1), greedy=False)
    with torch.no_grad():
        chances = POLICY(torch.tensor([[5, 6]])).logits[0, -1].softmax(-1)
    token = int(chances.argmax())
    expected = float(chances[token])
    found = sum(isinstance(action, Action) and action.ids[0] == token for action in actions) / 2000
    assert abs(found - expected) < 4 * (expected * (1 - expected) / 2000) ** 0.5


def test_a_context_without_room_is_broken_and_the_others_go_on() -> None:
    sampler = CacheSampler(POLICY, TOKENIZER, response_tokens=6)
    long, short = sampler([Episode([5] * 59), Episode([5])], SAMPLING, greedy=True)
    assert isinstance(long, Broken)
    assert "59 tokens, but must have at most 58" in long.error
    assert isinstance(short, Action)
