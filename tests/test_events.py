"""The events: what each becomes as JSON."""

from __future__ import annotations

import dataclasses
import json

import pytest

from evoprompt.log.evaluation import MainMetric
from evoprompt.log.events import (
    CandidatesDisagreed,
    Evaluated,
    Event,
    Evolved,
    Excerpt,
    IncumbentChanged,
    Intervened,
    Notice,
    Proposed,
    Pruned,
    QuestionsAssigned,
    RolloutSamples,
    Seeded,
    Sentences,
    StepCompleted,
    Verified,
)
from evoprompt.support.leads import SentenceValue
from evoprompt.types import Turn

ONE_OF_EACH: list[Event] = [
    Seeded(0, "c0", {"instruction": "Search."}),
    QuestionsAssigned(1, {"c0": 3}, 2, {"c0": 1.0}),
    StepCompleted(1, 6, 6, 1, 0.5, {"c0": 0.5}, {"tool_calls": 1.5}, 1.0),
    RolloutSamples(1, (Excerpt("c0", "2+2?", "4", 0.0, (Turn("5", "no"),), "expected 4", 7),)),
    CandidatesDisagreed(1, {"2+2?": {"c0": 0.0, "c1": 1.0}}),
    Pruned(5, ("c1",), ("c0",)),
    Proposed(15, "c2", {"instruction": "Search twice."}, ("c0",), "Fake", "it stopped early"),
    Proposed(15, "", {"instruction": ""}, ("c0",), "Fake", "", "empty", "it has no words"),
    Verified(15, "c2", 1, 0.7, 0.1, 20, True),
    Verified(15, "c3", 1, None, None, 0, False, "no rollout could be scored"),
    Evolved(15, 1, ("c2",), ("c0", "c2"), 40),
    Evaluated(15, "test", "c2", 120, {"right": 0.5}, {"easy": 0.9}, MainMetric("right", "right")),
    Intervened(15, "1-retire", "retire", "c2", "a person", done=True),
    IncumbentChanged(15, "c2"),
    Sentences(15, (SentenceValue("Search twice.", 0.06, 0.02, 3),)),
    Notice(16, "the proposer failed"),
]


class TestEvents:
    @pytest.mark.parametrize("event", ONE_OF_EACH, ids=lambda event: event.kind)
    def test_become_json_with_their_kind_and_every_field(self, event: Event) -> None:
        found = event.to_json()
        assert next(iter(found.items())) == ("event", event.kind)
        assert set(found) == {"event", *(field.name for field in dataclasses.fields(event))}
        assert json.loads(json.dumps(found, allow_nan=False))["step"] == event.step

    def test_have_kinds_of_their_own(self) -> None:
        kinds = {kind.__name__: kind.kind for kind in Event.__subclasses__()}
        assert len(set(kinds.values())) == len(kinds)
        here = {
            kind.__name__ for kind in Event.__subclasses__() if kind.__module__ == Event.__module__
        }
        assert here == {type(event).__name__ for event in ONE_OF_EACH}
