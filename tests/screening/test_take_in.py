"""Whatever a proposer returns is plain, bounded text behind the door, or refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pytest

from evoprompt.candidates import Screening
from evoprompt.events import Proposed
from evoprompt.replay import ReplayBuffer
from evoprompt.screening import LONGEST, SHOWN, take_in
from evoprompt.testing.samples import REQUIRED, candidate
from evoprompt.types import Proposal

PARENT = candidate(0)


class Broken(Mapping[str, str]):
    def __getitem__(self, key: str) -> str:
        raise RuntimeError("no")

    def __iter__(self) -> Iterator[str]:
        return iter(["instruction"])

    def __len__(self) -> int:
        return 1


class Silent:
    def __repr__(self) -> str:
        raise ValueError("no repr")


HOSTILE = {
    "deep JSON": Proposal.of('{"a":' * 10_000),
    "deep brackets": Proposal.of('["' + "[" * 60_000),
    "lone surrogate": Proposal.of("Add \ud800 both; write <answer>it</answer>."),
    "huge": Proposal.of("a" * 10_000_000),
    "huge rationale": Proposal({"instruction": ""}, rationale="b" * 10_000_000),
    "marks": Proposal.of("a" + "\u0315\u0300" * 30_000),
    "line breaks": Proposal.of("\n" * 60_000),
    "None component": Proposal({"instruction": None}),  # type: ignore[dict-item]
    "number": Proposal({"instruction": float("nan")}),  # type: ignore[dict-item]
    "odd name": Proposal({3: "text"}),  # type: ignore[dict-item]
    "bytes": Proposal({"instruction": b"text"}),  # type: ignore[dict-item]
    "no mapping": Proposal(["text"]),  # type: ignore[arg-type]
    "None": Proposal(None),  # type: ignore[arg-type]
    "broken mapping": Proposal(Broken()),
    "many components": Proposal({str(number): "x" for number in range(10_000)}),
    "odd rationale": Proposal.of("Add.", rationale=float("nan")),  # type: ignore[arg-type]
    "odd parents": Proposal({"instruction": "Add."}, 7),  # type: ignore[arg-type]
    "unhashable parents": Proposal({"instruction": "Add."}, ([],)),  # type: ignore[arg-type]
    "no repr": Proposal({"instruction": Silent()}, rationale=Silent()),  # type: ignore
    "odd proposer": Proposal({"instruction": "Add."}, proposer=object()),  # type: ignore[arg-type]
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


def test_a_rule_that_fails_refuses_the_proposal() -> None:
    def failing(_proposal: Proposal, _context: object) -> str | None:
        raise RecursionError("too deep")

    screening = Screening([failing], ReplayBuffer(), ())
    assert screening.screen([Proposal.of("Add.")], [PARENT], PARENT, step=1) == []
    (event,) = screening.events
    assert isinstance(event, Proposed)
    assert (event.rule, event.reason) == (
        "failing",
        "the rule failed: RecursionError: too deep",
    )


def test_texts_are_normalised_once() -> None:
    taken, finding = take_in(Proposal.of("One\r\ntwo\rthree\u2028four\x85cafe\u0301"))
    assert finding is None
    assert taken.text == "One\ntwo\nthree\nfour\ncaf\u00e9"


def test_what_is_plain_passes_unchanged() -> None:
    given = Proposal({"a": "Add.", "b": "Write \u4e8c."}, ("c0", "c1"), "because", "mine")
    assert take_in(given) == (given, None)


def test_a_text_that_is_too_long_keeps_its_beginning_and_says_how_long_it_was() -> None:
    taken, finding = take_in(Proposal.of("x" * (LONGEST + 1)))
    assert finding is not None
    assert finding.rule == "too_long"
    assert taken.text == "x" * SHOWN + f" [... {LONGEST + 1:,} characters]"
    assert take_in(Proposal.of("x" * LONGEST))[1] is None
