"""The journal of an optimization: what a resumed run takes from it, and what it repeats."""

from __future__ import annotations

from pathlib import Path

from evoprompt.optimizer.journal import Answered, Journal, Key
from evoprompt.optimizer.outcome import ExampleOutcome
from evoprompt.types import Proposal


def journal_of(path: Path, rewards: list[float | None]) -> Journal:
    """Return the journal at ``path`` as the next process reads it, after rollouts."""
    journal = Journal(path)
    for number, reward in enumerate(rewards):
        journal.add_rollout(number, key_of(number), ExampleOutcome(reward))
    return Journal(path)


def key_of(number: int) -> Key:
    return ("texts", f"q{number}", 0)


def test_rollouts_that_all_failed_are_repeated(tmp_path: Path) -> None:
    assert journal_of(tmp_path / "journal.jsonl", [None, None, None]).rollouts == {}


def test_ten_failures_at_the_end_are_an_outage(tmp_path: Path) -> None:
    resumed = journal_of(tmp_path / "journal.jsonl", [None, 1.0, *[None] * 10])
    assert list(resumed.rollouts) == [key_of(0), key_of(1)]


def test_failures_before_a_success_count_for_no_outage(tmp_path: Path) -> None:
    rewards = [*[None] * 9, 1.0, *[None] * 9]
    assert len(journal_of(tmp_path / "journal.jsonl", rewards).rollouts) == 19


def test_a_rollout_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal_of(path, [1.0, 0.5])
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2


def test_replies_are_repeated_if_all_failed_or_the_budget_was_spent(tmp_path: Path) -> None:
    good = Answered(1, proposals=[Proposal.of("Add.")])
    failed, spent = Answered(2, failed=True), Answered(3, spent=True, failed=True)
    for name, answers, steps in (
        ("all", (failed, spent), []),
        ("some", (good, failed), [1, 2]),
        ("spent", (good, failed, spent), [1, 2]),
    ):
        journal = Journal(tmp_path / name)
        for answer in answers:
            journal.add_answer(answer)
        assert list(Journal(tmp_path / name).answers) == steps
