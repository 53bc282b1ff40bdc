"""IRCoT (Trivedi et al., 2023, arXiv 2212.10509): every thought is the next query.

The question is searched for, the policy writes one thought, the thought is searched for, and so on
until the policy answers or the searches are used up; then it has to answer from what was found.

Departures: no worked examples in the prompt; passages stay where they were found instead of being
sorted anew before the question; a thought is what stands between the think tags, not a sentence.
"""

from __future__ import annotations

import re

from evoprompt.types import Turn
from evoprompt_search_qa import protocol
from evoprompt_search_qa.methods.play import Attempt, Play, look_up, say
from evoprompt_search_qa.policies.base import Dialogue

_THOUGHT = re.compile(rf"{protocol.THINK}(.*?){protocol.END_THINK}", re.DOTALL)


def ircot(attempt: Attempt) -> Play:
    """Searches for the question, then for each thought, then answers."""
    dialect = attempt.dialect
    query = dialect.query(attempt.question.text)
    passages = yield from look_up(attempt, query)
    attempt.turns.append(Turn("", dialect.given(query, passages)))
    while attempt.searches < dialect.max_searches:
        action = yield from say(attempt.dialogue, protocol.END_THINK, protocol.END_ANSWER)
        attempt.turns.append(Turn(action))
        thought = _THOUGHT.search(action)
        if protocol.find_answer(attempt.turns) is not None or thought is None:
            return
        query = dialect.query(thought.group(1).strip())
        passages = yield from look_up(attempt, query)
        attempt.turns[-1] = Turn(action, dialect.given(query, passages))
    reading = Dialogue(dialect.reader, attempt.question.text, tuple(attempt.turns))
    action = yield from say(reading, protocol.END_ANSWER)
    attempt.turns.append(Turn(action))
