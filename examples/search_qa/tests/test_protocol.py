from __future__ import annotations

from collections.abc import Sequence

import pytest
from evoprompt_search_qa import protocol

from evoprompt.agents import (
    Action,
    Agent,
    Episode,
    Limits,
    Result,
    Sampling,
    TagProtocol,
    TextTokenizer,
    ToolCall,
    play,
)
from evoprompt.types import Turn


@pytest.mark.parametrize(
    ("action", "query"),
    [
        ("<search> mayor of ulm </search>", "mayor of ulm"),
        ("<think> hm </think> <search> a </search>\n", "a"),
        ("<search> a </search> <search> b </search>", "b"),
        ("<search> a <search> b </search>", "b"),
        ("<search> a", None),
        ("<search> a </search> <answer> b </answer>", None),
        ("<answer> a </answer>", None),
        ("", None),
    ],
)
def test_a_query_is_what_the_action_ends_with(action: str, query: str | None) -> None:
    assert protocol.find_query(action) == query


def test_an_observation_gives_back_its_evidence() -> None:
    shown = "<information> a is b . c is d . </information>"
    assert protocol.evidence(Turn("", shown)) == "a is b . c is d ."
    assert protocol.evidence(Turn("<information> x </information>")) == ""
    assert "nothing found" in protocol.joined([])


def played(tags: TagProtocol, *actions: str) -> Episode:
    """An episode in which the policy says these, under at most two searches."""
    tokenizer, said = TextTokenizer(), list(actions)

    def sample(episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool) -> list[Action]:
        return [Action(tokenizer.encode(said.pop(0), add_special_tokens=False)) for _ in episodes]

    def search(calls: Sequence[ToolCall]) -> list[Result]:
        return [f"about {call.arguments['query']}" for call in calls]

    agent = Agent(tags, tokenizer, Limits(calls=2, turn_tokens=400, observation_tokens=400))
    (episode,) = play([agent.play([])], sample, search)
    assert len(episode.policy_mask) == len(episode.completion_ids)
    return episode


NEITHER, ASKED, SAID = "hm", "<search>ulm</search>", "<answer>yes</answer>"


def test_an_action_that_is_neither_may_be_tried_again() -> None:
    episode = played(protocol.RETRYING, NEITHER, ASKED, SAID)
    told, shown, last = (turn.observation for turn in episode.turns)
    assert told.startswith("\n\nError: This was neither a search nor an answer.")
    assert protocol.INFORMATION not in told
    assert shown == "\n\n<information>about ulm</information>\n\n"
    assert (episode.end, episode.answer, last) == ("answered", "yes", "")


def test_a_try_counts_as_a_search() -> None:
    assert played(protocol.RETRYING, NEITHER, NEITHER, ASKED).end == "out of turns"
    assert played(protocol.RETRYING, NEITHER, NEITHER, SAID).answer == "yes"


def test_else_it_ends_the_episode() -> None:
    episode = played(protocol.SEARCHING, NEITHER)
    assert (episode.end, len(episode.turns)) == ("malformed", 1)
