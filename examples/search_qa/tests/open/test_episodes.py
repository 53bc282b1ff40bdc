from __future__ import annotations

from collections.abc import Sequence

import pytest
from evoprompt_search_qa import protocol
from evoprompt_search_qa.open.episodes import Player
from evoprompt_search_qa.open.limits import Limits
from evoprompt_search_qa.open.samplers import Action
from transformers import PreTrainedTokenizerFast

LIMITS = Limits(searches=2, turn_tokens=40, observation_tokens=64)
FOUND = {"who": ("a passage",), "what": ("one", "two"), "nothing": ()}


class Script:
    """Says what it is told to, and keeps what it was asked."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, turns: Sequence[Sequence[str]]) -> None:
        self._tokenizer = tokenizer
        self._turns = list(turns)
        self.contexts: list[list[list[int]]] = []

    def __call__(self, contexts: Sequence[Sequence[int]], *, greedy: bool) -> list[Action]:
        self.contexts.append([list(ids) for ids in contexts])
        said = self._turns.pop(0)
        ids = [self._tokenizer.encode(text, add_special_tokens=False) for text in said]
        return [Action(row, [-0.5] * len(row)) for row in ids]

    def load_weights(self) -> None:
        """Nothing: there are none."""


def search(queries: Sequence[str]) -> list[tuple[str, ...] | None]:
    return [FOUND.get(query) for query in queries]


def play(tokenizer: PreTrainedTokenizerFast, *turns: Sequence[str]) -> tuple[Script, Player]:
    script = Script(tokenizer, turns)
    return script, Player(tokenizer, script, search, LIMITS)


def test_each_episode_ends_in_its_own_way(tokenizer: PreTrainedTokenizerFast) -> None:
    script, player = play(
        tokenizer,
        [
            "<answer> a </answer>",
            "I do not know",
            "<search> broken </search>",
            "<search> who </search>",
            "<search> nothing </search>",
        ],
        ["<search> who </search>", "<search> what </search>"],
        ["<search> who </search>", "<answer> b </answer>"],
    )
    episodes = player.play([[index] for index in range(5)])
    assert [episode.end for episode in episodes] == [
        "answered",
        "malformed",
        "failed",
        "out of turns",
        "answered",
    ]
    assert [episode.searches for episode in episodes] == [0, 0, 0, 2, 2]
    assert protocol.evidence(episodes[4].turns[0]) == "nothing found"
    assert protocol.evidence(episodes[4].turns[1]) == "[1] one\n[2] two"
    assert [len(asked) for asked in script.contexts] == [5, 2, 2]


def test_tokens_mask_and_logprobs_go_together_and_contexts_grow(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    script, player = play(tokenizer, ["<search> who </search>"], ["<answer> a </answer>"])
    (episode,) = player.play([[7, 8]])
    second = script.contexts[1][0]
    assert second == [7, 8, *episode.completion_ids[: len(second) - 2]]
    assert len(episode.completion_ids) == len(episode.policy_mask) == len(episode.logprobs)
    own = [i for i, mine in zip(episode.completion_ids, episode.policy_mask, strict=True) if mine]
    assert tokenizer.decode(own) == "<search> who </search><answer> a </answer>"
    assert {
        value for value, mine in zip(episode.logprobs, episode.policy_mask, strict=True) if mine
    } == {-0.5}
    assert {
        value for value, mine in zip(episode.logprobs, episode.policy_mask, strict=True) if not mine
    } == {0.0}


def test_a_long_observation_is_cut_within_its_tags(tokenizer: PreTrainedTokenizerFast) -> None:
    script = Script(tokenizer, [["<search> long </search>"], ["<answer> a </answer>"]])
    player = Player(tokenizer, script, lambda queries: [("word " * 500,)], LIMITS)
    (episode,) = player.play([[7]])
    assert episode.policy_mask.count(0) == LIMITS.observation_tokens
    shown = [
        i for i, mine in zip(episode.completion_ids, episode.policy_mask, strict=True) if not mine
    ]
    assert tokenizer.decode(shown) == episode.turns[0].observation
    assert protocol.evidence(episode.turns[0]).startswith("[1] word word")


def test_what_follows_a_closing_tag_in_its_token_is_not_read(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    _, player = play(
        tokenizer, ["<search> who </search><"], ["<answer> a </answer><search> who </search>"]
    )
    (episode,) = player.play([[7]])
    assert [turn.action for turn in episode.turns] == [
        "<search> who </search>",
        "<answer> a </answer>",
    ]


def test_a_process_that_has_finished_keeps_sampling_with_the_others(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    script = Script(tokenizer, [["<answer> a </answer>"] * 3, ["unread"] * 2])
    elsewhere = iter([3, 2, 0])
    player = Player(tokenizer, script, search, LIMITS, lambda count: max(count, next(elsewhere)))
    (episode,) = player.play([[7]])
    assert [len(asked) for asked in script.contexts] == [3, 2]
    assert [turn.action for turn in episode.turns] == ["<answer> a </answer>"]


@pytest.mark.parametrize(("searches", "tokens"), [(4, 5 * 40 + 4 * 64), (1, 2 * 40 + 64)])
def test_the_longest_response_is_known(searches: int, tokens: int) -> None:
    assert Limits(searches, 40, 64).response_tokens == tokens
