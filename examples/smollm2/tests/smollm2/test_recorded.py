from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from evoprompt_smollm2.bank import POOR
from evoprompt_smollm2.recorded import READING, Recorded, Recording, Written

from evoprompt.errors import InputError
from evoprompt.plugins import build
from evoprompt.rules import ScreeningContext
from evoprompt.screening import check
from evoprompt.testing import ProposerSuite
from evoprompt.testing.samples import request
from evoprompt.types import Proposal


class TestConformance(ProposerSuite):
    def build(self) -> Recorded:
        texts = [f"Read {n} times. Write <answer>the answer</answer>." for n in range(2, 20)]
        return Recorded(Recording(writer="a test", proposals=[Written(text=one) for one in texts]))


def test_the_firewall_refuses_one_of_the_recorded_texts_as_it_was_written() -> None:
    recording = Recording.read(READING)
    assert "Claude" in recording.writer, "whose proposals they are"
    assert all(one.rationale for one in recording.proposals)
    living, refused = [POOR], []
    for one in recording.proposals:
        context = ScreeningContext(parents=[POOR], living=living)
        found = check(Proposal.of(one.text), context)
        refused += [found.rule] if found else []
        living = [*living, one.text]
    assert refused == ["protocol"], "a blank to fill in"


def test_nothing_is_proposed_twice_and_then_nothing_at_all(tmp_path: Path) -> None:
    asked = replace(request(count=12), required=())
    parent = asked.parents[0].candidate.text
    file = tmp_path / "mine.json"
    proposals = [{"text": parent}, {"text": "New."}]
    file.write_text(json.dumps({"writer": "me", "proposals": proposals}))
    proposer = build("proposer", {"name": "recorded", "file": str(file)})
    assert [one.text for one in proposer.propose(asked)] == ["New."]
    file.write_text(json.dumps({"writer": "me", "proposals": proposals[:1]}))
    assert not build("proposer", {"name": "recorded", "file": str(file)}).propose(asked)


@pytest.mark.parametrize(
    ("text", "said"), [(None, "cannot be read"), ('{"writer": "me"}', "proposals is missing")]
)
def test_what_is_no_recording_is_named(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "mine.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InputError, match=said):
        Recording.read(file)
