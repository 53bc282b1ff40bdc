from __future__ import annotations

from evoprompt_tiny.demonstrations import Scene
from evoprompt_tiny.habits import Script
from evoprompt_tiny.task import NumberTask
from evoprompt_tiny.template import END, call_phrases
from evoprompt_tiny.vocabulary import build_tokenizer

from evoprompt.agents import Episode, Limits
from evoprompt.agents.tasks import Score
from evoprompt.types import Question

OPENING, CLOSING = call_phrases("look", "at")
TOKENIZER = build_tokenizer(["a door"], [OPENING, CLOSING])


def look(at: str) -> str:
    """What is there."""
    return f"door {at}"


class Looking(NumberTask):
    seed_instructions = ("Look.",)
    tools = (look,)
    limits = Limits(2, 20, 20)

    @property
    def splits(self) -> dict[str, tuple[Question, ...]]:
        return {}

    def score(self, episode: Episode, question: Question) -> Score:
        return Score(0.0)


SCENE = Scene(Looking(), TOKENIZER, "train")


def looking() -> Script:
    first = yield f"{OPENING}1{CLOSING}"
    second = yield f"{OPENING}{first[-1]}2{CLOSING}"
    yield f"a {second}"


def played(script: Script) -> Episode:
    return SCENE.play("Look well.", [{"role": "user", "content": "Where?"}], script)


def test_a_demonstrator_reads_the_results_of_its_calls() -> None:
    episode = played(looking())
    assert episode.end == "answered"
    assert episode.answer == "a door 12"
    assert episode.tool_calls == 2


def test_a_malformed_call_ends_the_demonstration() -> None:
    def broken() -> Script:
        yield f"{OPENING}1"
        raise AssertionError("nothing follows a malformed call")

    episode = played(broken())
    assert episode.end == "malformed"
    assert TOKENIZER.decode(episode.completion_ids) == f"{OPENING}1{END}"
