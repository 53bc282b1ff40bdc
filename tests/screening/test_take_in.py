"""Whatever a proposer returns is plain, bounded text once it is screened, or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evoprompt.log.events import Proposed
from evoprompt.replay import ReplayBuffer
from evoprompt.screening import LONGEST, SHOWN, Screening, clean
from evoprompt.testing.samples import REQUIRED, candidate
from evoprompt.types import Proposal

PARENT = candidate(0)

HOSTILE = {
    "deep JSON": Proposal.of('{"a":' * 10_000),
    "lone surrogate": Proposal.of("Add \ud800 both; write <answer>it</answer>."),
    "huge": Proposal.of("a" * 10_000_000),
    "huge rationale": Proposal({"instruction": ""}, rationale="b" * 10_000_000),
    "many components": Proposal({str(number): "x" for number in range(10_000)}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_proposal_is_refused_in_one_event_that_a_file_can_hold(name: str) -> None:
    screening = Screening(None, ReplayBuffer(), REQUIRED)
    assert screening.screen([HOSTILE[name]], [PARENT], PARENT, step=1) == []
    (event,) = screening.events
    assert isinstance(event, Proposed)
    assert event.rule
    assert event.reason
    line = json.dumps(event.to_json(), allow_nan=False, ensure_ascii=False).encode()
    assert len(line) < 4 * LONGEST + 20_000
    longest = SHOWN + 100 if name == "huge" else LONGEST
    assert all(len(text) <= longest for text in event.components.values())


@pytest.mark.parametrize(
    "given",
    [
        {"components": None},
        {"components": "text"},
        {"components": ["text"]},
        {"components": {3: "text"}},
        {"components": {"instruction": "Add."}, "rationale": 1.5},
        {"components": {"instruction": "Add."}, "parents": ([],)},
        {"components": {"instruction": "Add."}, "parents": "c0"},
    ],
)
def test_a_proposal_of_anything_else_cannot_be_made(given: Any) -> None:
    with pytest.raises(ValueError, match=r"Proposal\n(components|rationale|parents)"):
        Proposal(**given)


def test_line_ends_are_unix_ones() -> None:
    cleaned = clean(Proposal.of("One\r\ntwo\rthree\u2028four\x85caf\u00e9"))
    assert cleaned.text == "One\ntwo\nthree\nfour\ncaf\u00e9"
    assert clean(cleaned) == cleaned
