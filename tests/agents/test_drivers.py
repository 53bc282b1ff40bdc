from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from evoprompt.agents import (
    Action,
    Agent,
    Broken,
    Episode,
    Limits,
    Lockstep,
    Result,
    Sample,
    Sampling,
    TagProtocol,
    TextTokenizer,
    ToolCall,
    play,
    play_one,
)

TAGS = TagProtocol("look", "at", "say", opening="(", closing=")")
TOKENIZER = TextTokenizer()
AGENT = Agent(TAGS, TOKENIZER, Limits(3, 40, 40))


def prompt(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_special_tokens=False)


class Counts:
    """Looks as often as the prompt says, then answers."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.called: list[list[str]] = []

    def __call__(
        self, episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool
    ) -> list[Action]:
        self.batches.append(len(episodes))
        return [self.action(episode) for episode in episodes]

    def action(self, episode: Episode) -> Action:
        wanted = TOKENIZER.decode(episode.prompt_ids, False)
        often = int(wanted) if wanted.isdigit() else 0
        done = episode.tool_calls
        text = f"<look>{wanted}.{done}</look>" if done < often else f"<say>{wanted}</say>"
        return Action(TOKENIZER.encode(text, add_special_tokens=False))

    def see(self, calls: Sequence[ToolCall]) -> list[Result]:
        self.called.append([str(call.arguments["at"]) for call in calls])
        return [Broken("dark") if "3" in found else found for found in self.called[-1]]


def test_episodes_advance_together_and_keep_their_order() -> None:
    policy = Counts()
    plays = [AGENT.play(prompt(str(number))) for number in (1, 0, 2)]
    episodes = play(plays, policy, policy.see)
    assert [episode.answer for episode in episodes] == ["1", "0", "2"]
    assert policy.batches == [3, 2, 1]
    assert policy.called == [["1.0", "2.0"], ["2.1"]]


def test_what_breaks_costs_only_its_own_episode() -> None:
    policy = Counts()
    episodes = play([AGENT.play(prompt(n)) for n in ("3", "2")], policy, policy.see)
    assert [episode.end for episode in episodes] == ["failed", "answered"]


@pytest.mark.parametrize("text", ["\ud83d", "left \udcff right", "\udc00\ud800" * 3])
def test_half_a_character_in_the_text_of_a_tool_ends_no_episode(text: str) -> None:
    policy = Counts()

    def see(calls: Sequence[ToolCall]) -> list[Result]:
        return [text for _ in calls]

    async def sample(wanted: Sample) -> Action:
        return policy.action(wanted.episode)

    async def look(call: ToolCall) -> Result:
        return text

    together = play([AGENT.play(prompt(n)) for n in ("1", "2")], policy, see)
    alone = asyncio.run(play_one(AGENT.play(prompt("1")), sample, look))
    for episode in (*together, alone):
        assert episode.end == "answered"
        assert "?" in episode.turns[0].observation
        assert "".join(turn.observation for turn in episode.turns).encode()


def test_a_tool_that_raises_ends_everything() -> None:
    def down(calls: Sequence[ToolCall]) -> list[Result]:
        raise ConnectionError("nobody was answered")

    with pytest.raises(ConnectionError, match="nobody was answered"):
        play([AGENT.play(prompt("1"))], Counts(), down)


def test_a_process_that_has_finished_keeps_sampling_with_the_others() -> None:
    policy = Counts()
    elsewhere = iter([3, 2, 0])
    lockstep = Lockstep(lambda count: max(count, next(elsewhere)), prompt("end"), AGENT.sampling)
    (episode,) = play([AGENT.play(prompt("0"))], policy, policy.see, lockstep=lockstep)
    assert policy.batches == [3, 2]
    assert episode.answer == "0"
    elsewhere = iter([1, 0])
    assert play([], policy, policy.see, lockstep=lockstep) == []
    assert policy.batches == [3, 2, 1]


def test_one_episode_alone_is_the_same_one() -> None:
    policy = Counts()
    together = play([AGENT.play(prompt("2"))], policy, policy.see)

    async def sample(wanted: Sample) -> Action:
        assert wanted.sampling == AGENT.sampling
        return policy.action(wanted.episode)

    async def call(wanted: ToolCall) -> Result:
        return policy.see([wanted])[0]

    assert [asyncio.run(play_one(AGENT.play(prompt("2")), sample, call))] == together
