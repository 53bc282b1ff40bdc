"""The methods of Table 1, played with a policy that says what it is told to."""

from __future__ import annotations

import pytest
from evoprompt_search_qa import protocol
from evoprompt_search_qa.methods.steps import methods
from evoprompt_search_qa.methods.words import READER

from evoprompt.agents import Action, Broken, Episode, Limits, Sample, TextTokenizer, ToolCall
from evoprompt.types import Question

LIMITS = Limits(calls=4, turn_tokens=500, observation_tokens=500)
TOKENS = TextTokenizer()


class Played:
    """One question answered by a method; ``replies`` are the policy's, in turn."""

    def __init__(self, method: str, *replies: str | Broken, broken: bool = False) -> None:
        self.prompts: list[str] = []
        self.stops: list[tuple[str, ...]] = []
        self.queries: list[str] = []
        left = list(replies)
        play = methods("user")[method].begin(
            TOKENS, LIMITS, Question("q", "Who?", ("Ada",)), "Do it."
        )
        given: Action | Broken | str | None = None
        try:
            while True:
                wanted = next(play) if given is None else play.send(given)
                if isinstance(wanted, Sample):
                    self.prompts.append(TOKENS.decode(wanted.episode.context, False))
                    self.stops.append(tuple(wanted.sampling.stop))
                    said = left.pop(0)
                    given = (
                        said
                        if isinstance(said, Broken)
                        else Action(TOKENS.encode(said, add_special_tokens=False))
                    )
                else:
                    given = self._called(wanted, broken)
        except StopIteration as ended:
            self.episode: Episode = ended.value
        assert not left, "the method did not want all replies"

    def _called(self, call: ToolCall, broken: bool) -> str | Broken:
        query = str(call.arguments["query"])
        self.queries.append(query)
        return Broken("server is down") if broken else f"[1] passage on {query}"

    @property
    def answer(self) -> str | None:
        return protocol.find_answer(self.episode.turns)


@pytest.mark.parametrize("method", ["direct", "cot"])
def test_a_closed_book_takes_one_action_and_never_searches(method: str) -> None:
    found = Played(method, "<search> who </search>")
    assert (found.queries, found.answer) == ([], None)
    assert "Do it." in found.prompts[0]
    assert found.stops == [("</answer>",)]


def test_rag_is_given_passages_for_the_question() -> None:
    found = Played("rag", "<answer>Ada</answer>")
    assert (found.queries, found.answer) == (["Who?"], "Ada")
    assert "passage on Who?" in found.prompts[0]
    assert found.episode.tool_calls == 1


def test_ircot_searches_for_every_thought() -> None:
    found = Played("ircot", "<think> the first fact </think>", "<answer>Ada</answer>")
    assert (found.queries, found.answer) == (["Who?", "the first fact"], "Ada")
    assert "passage on the first fact" in found.prompts[1]


def test_ircot_answers_from_what_was_found_when_the_searches_are_used_up() -> None:
    thoughts = [f"<think>{number}</think>" for number in range(LIMITS.calls - 1)]
    found = Played("ircot", *thoughts, "<answer>Ada</answer>")
    assert (len(found.queries), found.answer) == (LIMITS.calls, "Ada")
    assert READER in found.prompts[-1]
    assert Played("ircot", "I give up.").answer is None


def test_search_o1_sees_what_the_reader_made_of_the_passages() -> None:
    found = Played(
        "search-o1",
        "I wonder. <search>ulm</search>",
        "<answer>Ulm is a city.</answer>",
        "<answer>Ada</answer>",
    )
    agent, reader, again = found.prompts
    assert all(known in reader for known in (READER, "passage on ulm", "Who?", "I wonder."))
    assert again.startswith(agent)
    assert "Ulm is a city." in again
    assert "passage on ulm" not in again
    assert (found.queries, found.answer, found.episode.tool_calls) == (["ulm"], "Ada", 1)


def test_a_search_or_a_reply_that_breaks_ends_the_episode_as_failed() -> None:
    found = Played("search-o1", "<search>ulm</search>", broken=True)
    assert (found.episode.end, found.episode.error) == ("failed", "server is down")
    assert [turn.action for turn in found.episode.turns] == ["<search>ulm</search>"]
    assert Played("rag", Broken("no reply")).episode.error == "no reply"
