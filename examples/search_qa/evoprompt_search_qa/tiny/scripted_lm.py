"""Stands in for a language model, so that the path through one can be tried without one.

It reads the failed episodes in a prompt of the proposer ``reflection`` as any model would have
to, and writes instructions in the only words the small policy knows: those of the sentence bank.

    python -m evoprompt_search_qa.tiny.scripted_lm
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from threading import Event
from typing import Any

from evoprompt.testing.openai_server import OpenAIServer, chat_fields
from evoprompt.types import Assignment, Candidate, Question, Trajectory, Turn
from evoprompt_search_qa.bank import PROTOCOL_SENTENCE, REMEDIES, SENTENCES
from evoprompt_search_qa.diagnosis import diagnose

PORT = 8077
"""Where ``tiny-reflection.yaml`` looks for it."""

_LINE = re.compile(r"^(Question|Correct answer|Agent[^:\n]*|Environment): (.*)$", re.MULTILINE)


def answer(body: Mapping[str, Any]) -> str:
    """A completion: what went wrong most often, and one instruction for each remedy in turn."""
    prompt = str(body["messages"][-1]["content"])
    parent = _field(prompt, "instruction") or PROTOCOL_SENTENCE
    found = Counter(name for one in _episodes(_field(prompt, "episodes")) for name in diagnose(one))
    causes = [name for name, _ in found.most_common()] or list(REMEDIES)
    sentences = [
        wording
        for idea in dict.fromkeys(idea for cause in causes for idea in REMEDIES[cause])
        for wording in SENTENCES[idea]
        if wording not in parent
    ]
    count = int(_field(prompt, "count") or 1)
    return chat_fields(
        analysis=f"The agent failed because of: {', '.join(causes)}.",
        candidates=[f"{parent} {sentence}" for sentence in sentences[:count]],
    )


def _field(prompt: str, name: str) -> str:
    found = re.search(
        rf"\[\[ ## {name} ## \]\]\n(.*?)(?=\n\n\[\[ ## |\n\nRespond)", prompt, re.DOTALL
    )
    return found.group(1).strip() if found else ""


def _episodes(told: str) -> Iterator[Trajectory]:
    for episode in re.split(r"^Episode \d+\n", told, flags=re.MULTILINE)[1:]:
        lines = _LINE.findall(episode)
        said = dict(lines)
        turns: list[Turn] = []
        for label, text in lines:
            if label.startswith("Agent"):
                turns.append(Turn(text))
            elif label == "Environment" and turns:
                turns[-1] = Turn(turns[-1].action, text)
        gold = tuple(said.get("Correct answer", "").split(" or "))
        question = Question("told", said.get("Question", ""), gold)
        asked = Assignment("told", question, Candidate("told", {"instruction": ""}), 1, "told")
        yield Trajectory(asked, 0.0, turns=tuple(turns))


if __name__ == "__main__":
    with OpenAIServer([], answer, PORT) as server:
        print(f"a scripted language model answers at {server.url}; Ctrl-C ends it")
        try:
            Event().wait()
        except KeyboardInterrupt:
            print("ended")
