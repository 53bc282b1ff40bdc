"""The corpora: what a proposer of a real run might send, right and wrong.

``good.jsonl`` must pass and ``malformed.jsonl`` must not; each malformed text names the rule that
has to find it. ``contexts.json`` holds the parents, questions, answers and limits of the tasks. The
other folders were held out once; docs/measurements.md has their figures.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evoprompt.rules import ScreeningContext, default_rules
from evoprompt.screening import check, clean
from evoprompt.types import Proposal, TextLimits, estimate_tokens

_HERE = Path(__file__).parent
_LIMITS = {"max_tokens", "max_prompt_tokens", "control_tokens"}


def words(text: str) -> int:
    return len(text.split())


def read(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (_HERE / name).read_text(encoding="utf-8").splitlines()]


def contexts(folder: str) -> dict[str, ScreeningContext]:
    file = _HERE / folder / "contexts.json"
    if not file.exists():  # written for the tasks of the first corpus
        file = _HERE / "contexts.json"
    tasks = json.loads(file.read_text(encoding="utf-8"))
    count = words if file.parent == _HERE else estimate_tokens
    known = {}
    for name, task in tasks.items():
        limits = {key: task.pop(key) for key in _LIMITS & task.keys()}
        known[name] = ScreeningContext(limits=TextLimits(count, **limits), **task)
    return known


def found(case: dict[str, str], known: dict[str, ScreeningContext]) -> str:
    finding = check(clean(Proposal.of(case["text"])), known[case["context"]])
    return finding.rule if finding else ""


@pytest.mark.parametrize(
    ("folder", "refused", "admitted"),
    [
        (".", 1, 20),
        ("heldout", 0, 5),
        ("heldout2", 0, 0),
        ("heldout3", 1, 9),
        ("heldout4", 0, 12),
        ("heldout5", 2, 24),
        ("unseen", 0, 0),
    ],
)
def test_corpora_are_judged_as_when_they_were_measured(
    folder: str, refused: int, admitted: int
) -> None:
    known = contexts(folder)
    good = [found(case, known) for case in read(f"{folder}/good.jsonl")]
    malformed = [found(case, known) for case in read(f"{folder}/malformed.jsonl")]
    assert sum(map(bool, good)) <= refused
    assert malformed.count("") <= admitted


def test_what_is_malformed_is_mostly_found_by_the_rule_that_it_was_written_for() -> None:
    known = contexts(".")
    others = [
        (case["text"], rule)
        for case in read("malformed.jsonl")
        if (rule := found(case, known)) not in ("", case["rule"])
    ]
    assert len(others) <= 18


@pytest.mark.parametrize("name", [rule.__name__ for rule in default_rules()])
def test_no_rule_can_be_left_out(name: str) -> None:
    others = [rule for rule in default_rules() if rule.__name__ != name]
    known = contexts(".")
    cases = [case for case in read("malformed.jsonl") if case["rule"] == name]
    assert any(
        check(Proposal.of(case["text"]), known[case["context"]], others) is None for case in cases
    )
