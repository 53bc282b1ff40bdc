"""IRCoT (Trivedi et al., 2023, arXiv 2212.10509): every thought is the next query.

The question is searched for, the policy writes one thought, the thought is searched for, and so on
until the policy answers or the searches are used up; then it has to answer from what was found.

Departures: no worked examples in the prompt; passages stay where they were found instead of being
sorted anew before the question; a thought is what stands between the think tags, not a sentence.
"""

from __future__ import annotations

import re
from dataclasses import replace

from evoprompt_search_qa import protocol
from evoprompt_search_qa.methods.play import Attempt, Steps, look_up, say

_THOUGHT = re.compile(rf"{protocol.THINK}(.*?){protocol.END_THINK}", re.DOTALL)


def ircot(attempt: Attempt) -> Steps:
    """Searches for the question, then for each thought, then answers."""
    dialect = attempt.dialect
    query = dialect.query(attempt.question.text)
    given = dialect.given(query, (yield from look_up(query)))
    attempt.begin(given)
    while attempt.episode.tool_calls < dialect.limits.calls:
        action = yield from say(attempt, attempt.episode, protocol.END_THINK, protocol.END_ANSWER)
        thought = _THOUGHT.search(action)
        if protocol.find_answer(attempt.episode.turns) is not None or thought is None:
            return
        query = dialect.query(thought.group(1).strip())
        attempt.show(dialect.given(query, (yield from look_up(query))))
    reading = attempt.prompt_ids(given, instruction=dialect.reader)
    attempt.episode = replace(attempt.episode, prompt_ids=reading)
    yield from say(attempt, attempt.episode, protocol.END_ANSWER)
