"""Search-o1 (Li et al., 2025, arXiv 2501.05366): an agent that never sees the passages themselves.

After each search the policy is asked aside to read the passages with the question, the thoughts so
far and the query in mind; only what it makes of them enters the agent's dialogue.

Departures: the protocol's search tags instead of the paper's marks; queries are batched over
questions by the driver; passages come from the one retriever of the evaluation, not from the web.
"""

from __future__ import annotations

from evoprompt.agents import Episode
from evoprompt.types import Turn
from evoprompt_search_qa import protocol
from evoprompt_search_qa.methods.play import Attempt, Steps, ask_agent, look_up, say


def search_o1(attempt: Attempt) -> Steps:
    """As the agent of Search-R1, with a digest in place of the passages."""
    dialect = attempt.dialect
    attempt.begin()
    while (query := (yield from ask_agent(attempt))) is not None:
        given = dialect.given(query, (yield from look_up(query)))
        thoughts = "".join(turn.action for turn in attempt.episode.turns)
        task = dialect.task_for_reader(attempt.question.text, thoughts, query)
        aside = Episode(attempt.prompt_ids(given, instruction=dialect.reader, question=task))
        reading = yield from say(attempt, aside, protocol.END_ANSWER)
        # What the reader wrote in the wrong form may still help: that is for the agent to say.
        found = protocol.find_answer([Turn(reading)])
        attempt.show(dialect.digest(query, reading.strip() if found is None else found))
