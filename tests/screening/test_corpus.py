"""The corpora: what a proposer of a real run might send, right and wrong.

``good.jsonl`` must pass and ``malformed.jsonl`` must not; each malformed text names the rule that
finds it. ``unseen`` was written before the rules, about other tasks. The five held-out collections
are older: what they call malformed is also remarks in the middle of a text and introductions in
other languages, which are no rule's business any more: verification judges those.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evoprompt.screening import ScreeningContext, check, default_rules
from evoprompt.types import Proposal

_HERE = Path(__file__).parent
RULES = {rule.__name__: rule for rule in default_rules()}


def read(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (_HERE / name).read_text(encoding="utf-8").splitlines()]


def contexts(folder: str) -> dict[str, ScreeningContext]:
    """What its texts are judged against; those of tasks without a file of their own by words."""
    file = _HERE / folder / "contexts.json"
    if folder != "." and file.exists():
        own = json.loads(file.read_text(encoding="utf-8"))
        return {name: ScreeningContext(**fields) for name, fields in own.items()}
    found = json.loads((_HERE / "contexts.json").read_text(encoding="utf-8"))
    return {
        name: ScreeningContext(**fields, count_tokens=lambda text: len(text.split()))
        for name, fields in found.items()
    }


def refused(folder: str, kind: str) -> int:
    """How many texts of a file screening refuses."""
    known = contexts(folder)
    return sum(
        check(Proposal.of(case["text"]), known[case["context"]]) is not None
        for case in read(f"{folder}/{kind}.jsonl")
    )


def test_every_rule_finds_cases_and_no_malformed_text_is_admitted() -> None:
    cases = read("malformed.jsonl")
    assert len(cases) >= 300
    assert {case["rule"] for case in cases} | {"grader_talk"} == set(RULES)
    assert refused(".", "malformed") == len(cases)


def test_fewer_than_one_good_text_in_a_hundred_is_refused() -> None:
    assert refused(".", "good") < 0.01 * len(read("good.jsonl"))


def test_of_unseen_texts_one_good_one_is_refused_and_no_malformed_one_admitted() -> None:
    assert refused("unseen", "good") <= 1
    assert refused("unseen", "malformed") == len(read("unseen/malformed.jsonl")) == 50


@pytest.mark.parametrize(
    ("folder", "good", "malformed"),
    [
        ("heldout", 0, 190),
        ("heldout2", 0, 68),
        ("heldout3", 1, 116),
        ("heldout4", 0, 110),
        ("heldout5", 4, 114),
    ],
)
def test_the_older_corpora_are_judged_as_when_they_were_measured(
    folder: str, good: int, malformed: int
) -> None:
    assert refused(folder, "good") <= good
    assert refused(folder, "malformed") >= malformed
