from __future__ import annotations

from collections.abc import Sequence

import pytest
from transformers import PreTrainedTokenizerFast

from evoprompt.agents import (
    Action,
    Agent,
    Broken,
    Episode,
    Limits,
    Result,
    Sampling,
    TagProtocol,
    TextTokenizer,
    ToolCall,
    ToolCallProtocol,
    Tools,
    play,
)
from evoprompt.log.turns import readable
from evoprompt.types import Turn

TAGS = TagProtocol("look", "at", "say", opening="\n<seen>\n", closing="\n</seen>\n")
LIMITS = Limits(calls=2, turn_tokens=40, observation_tokens=30)
SEEN: dict[str, Result] = {"left": "a door", "right": "a wall", "up": Broken("it is dark")}


class Script:
    """Says what it is told to, and keeps what it was asked."""

    def __init__(self, tokenizer: TextTokenizer | PreTrainedTokenizerFast, *said: str) -> None:
        self._tokenizer = tokenizer
        self._said = list(said)
        self.contexts: list[list[int]] = []

    def __call__(
        self, episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool
    ) -> list[Action | Broken]:
        self.contexts += [episode.context for episode in episodes]
        return [self._action(self._said.pop(0)) for _ in episodes]

    def _action(self, text: str) -> Action | Broken:
        if text == "broken":
            return Broken("the sampler is down")
        ids = self._tokenizer.encode(text, add_special_tokens=False)
        return Action(ids, [-0.5] * len(ids))


def see(calls: Sequence[ToolCall]) -> list[Result]:
    return [SEEN[str(call.arguments["at"])] for call in calls]


def played(*said: str) -> tuple[Episode, Script, TextTokenizer]:
    tokenizer = TextTokenizer()
    script = Script(tokenizer, *said)
    prompt = tokenizer.encode("Where is it?", add_special_tokens=False)
    (episode,) = play([Agent(TAGS, tokenizer, LIMITS).play(prompt)], script, see)
    return episode, script, tokenizer


@pytest.mark.parametrize(
    ("said", "end", "answer", "calls"),
    [
        (["<say> a </say>"], "answered", "a", 0),
        (["I do not know"], "malformed", None, 0),
        (["<look>left</look>", "<say>a</say>"], "answered", "a", 1),
        (["<look>left</look>"] * 3, "out of turns", None, 2),
        (["<look>up</look>"], "failed", None, 0),
        (["<look>left</look>", "broken"], "failed", None, 1),
    ],
)
def test_each_episode_ends_in_its_own_way(
    said: list[str], end: str, answer: str | None, calls: int
) -> None:
    episode, _, _ = played(*said)
    assert (episode.end, episode.answer, episode.tool_calls) == (end, answer, calls)
    assert bool(episode.error) is (end == "failed")


def test_tokens_mask_and_logprobs_go_together_and_contexts_grow() -> None:
    episode, script, tokenizer = played("<look>left</look>", "<say>a</say>")
    first, second = script.contexts
    assert first == episode.prompt_ids
    assert second == episode.context[: len(second)]
    columns = (episode.completion_ids, episode.policy_mask, episode.logprobs)
    rows = list(zip(*columns, strict=True))
    own = [token for token, mine, _ in rows if mine]
    assert tokenizer.decode(own, False) == "<look>left</look><say>a</say>"
    assert {value for _, mine, value in rows if mine} == {-0.5}
    assert {value for _, mine, value in rows if not mine} == {0.0}
    assert episode.turns == [
        Turn("<look>left</look>", "\n<seen>\na door\n</seen>\n"),
        Turn("<say>a</say>"),
    ]


def test_what_follows_a_closing_tag_is_trained_on_but_not_read() -> None:
    episode, _, tokenizer = played("<look>left</look> <", "<say>a</say><look>left</look>")
    assert [turn.action for turn in episode.turns] == ["<look>left</look>", "<say>a</say>"]
    assert "</look> <" in tokenizer.decode(episode.completion_ids, False)


@pytest.mark.parametrize("size", [500, 10_000_000])
def test_a_long_result_is_cut_within_its_frame(size: int) -> None:
    agent = Agent(TAGS, tokenizer := TextTokenizer(), LIMITS)
    ids, text = agent.observation([ToolCall("look", {})], ["word " * (size // 5)])
    assert len(ids) == LIMITS.observation_tokens
    assert tokenizer.decode(ids, False) == text
    assert text.startswith("\n<seen>\nword word")
    assert text.endswith("\n</seen>\n")


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def test_a_call_cut_at_the_limit_is_closed_for_the_policy(hermes: PreTrainedTokenizerFast) -> None:
    agent = Agent(ToolCallProtocol(hermes), hermes, Limits(1, 400, 400))
    cut = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}'
    (episode,) = play([agent.play([5])], Script(hermes, cut, "3<|im_end|>"), Tools([add]))
    assert episode.turns[0].observation.startswith("<|im_end|>\n<|im_start|>user")
    assert episode.answer == "3"


def test_a_call_that_cannot_be_read_is_told_and_may_be_made_again(
    hermes: PreTrainedTokenizerFast,
) -> None:
    agent = Agent(ToolCallProtocol(hermes), hermes, Limits(2, 400, 400))
    call = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call><|im_end|>'
    script = Script(hermes, call.replace("2}}", "2}"), call, "3<|im_end|>")
    (episode,) = play([agent.play([5])], script, Tools([add]))
    assert (episode.end, episode.answer, episode.tool_calls) == ("answered", "3", 2)
    assert "Error: the call cannot be read" in episode.turns[0].observation
    first, second, third = script.contexts
    assert (second[: len(first)], third[: len(second)]) == (first, second)


@pytest.mark.parametrize(
    ("said", "end", "answer", "calls"),
    [
        (["<think>Left? <say>b</say></think> <say>a</say>"], "answered", "a", 0),
        (["Left? <look>up</look></think><say>a</say>"], "answered", "a", 0),
        (
            ["<think></think><look>left</look>", "<think>So.</think><say>a</say>"],
            "answered",
            "a",
            1,
        ),
        (["<think>I might <look>left</look>"], "cut in thought", None, 0),
        (["<think>Hm. <say>a</say>"], "cut in thought", None, 0),
        (["\u25c1think\u25b7Hm. <say>a</say>"], "cut in thought", None, 0),
        (["\u25c1think\u25b7 <say>b</say>\u25c1/think\u25b7<say>a</say>"], "answered", "a", 0),
        (["Instead of <think> I say <say>a</say>"], "answered", "a", 0),
    ],
)
def test_what_is_thought_is_neither_done_nor_an_answer(
    said: list[str], end: str, answer: str | None, calls: int
) -> None:
    episode, _, tokenizer = played(*said)
    assert (episode.end, episode.answer, episode.tool_calls) == (end, answer, calls)
    spoken = zip(episode.completion_ids, episode.policy_mask, strict=True)
    assert tokenizer.decode([token for token, own in spoken if own], False) == "".join(said)


def test_a_thought_that_the_prompt_began_and_the_limit_cut_is_no_answer() -> None:
    tokenizer = TextTokenizer()
    prompt = tokenizer.encode("Who?\n<think>\n", add_special_tokens=False)
    script = Script(tokenizer, "It may be Ada, or <say>Bea</say>")
    (episode,) = play([Agent(TAGS, tokenizer, LIMITS).play(prompt)], script, see)
    assert (episode.end, episode.answer) == ("cut in thought", None)
    assert readable(episode.turns[0])[:2] == ("It may be Ada, or <say>Bea</say>", "")
