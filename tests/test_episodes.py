from __future__ import annotations

from dataclasses import replace

from evoprompt.log.turns import clip, render_episode
from evoprompt.types import Assignment, Candidate, Question, Trajectory, Turn

REQUIRED = ["<search>", "</search>", "<answer>", "</answer>"]


def trajectory(*turns: Turn, question: str = "Who built it?") -> Trajectory:
    asked = Question("q", question, ("Ada Veldt", "A. Veldt"))
    assignment = Assignment("a", asked, Candidate("c0", {"instruction": "Search."}), 1, "g")
    return Trajectory(assignment, 0.0, 0, turns)


SHORT = trajectory(
    Turn("I wonder. <search> builder </search>", "It was built long ago."),
    Turn("<search> built by </search>", "Built by A. Veldt."),
    Turn("So: <answer> long ago </answer>"),
)


def test_a_short_episode_is_told_in_full_and_in_order() -> None:
    told = render_episode(replace(SHORT, feedback="expected a person, got a time\n"))
    assert told == (
        "Question: Who built it?\n"
        "Correct answer: Ada Veldt or A. Veldt\n"
        "Agent: I wonder. <search> builder </search>\n"
        "Environment: It was built long ago.\n"
        "Agent: <search> built by </search>\n"
        "Environment: Built by A. Veldt.\n"
        "Agent, at last: So: <answer> long ago </answer>\n"
        "Feedback: expected a person, got a time"
    )


def long_episode() -> Trajectory:
    turns = [
        Turn(f"{'Hmm. ' * 200}<search> query {number} </search>", f"passage {number} " * 300)
        for number in range(4)
    ]
    return trajectory(*turns, Turn("<answer> nobody </answer>"))


def test_feedback_is_kept_where_the_episode_is_long() -> None:
    told = render_episode(replace(long_episode(), feedback="no such person"), tokens=60)
    assert "Feedback: no such person" in told
    huge = render_episode(replace(SHORT, feedback="x" * 10**7), tokens=300)
    assert len(huge) <= 300 * 4


def test_a_long_episode_keeps_what_matters_within_the_budget() -> None:
    told = render_episode(long_episode(), tokens=300)
    assert len(told) <= 300 * 4
    for kept in ("Who built it?", "Ada Veldt", "<answer> nobody </answer>", "passage 3"):
        assert kept in told


def test_the_tighter_the_budget_the_less_is_said_of_the_beginning() -> None:
    told = render_episode(long_episode(), tokens=80)
    assert len(told) <= 80 * 4
    assert "Who built it?" in told
    assert "<answer> nobody </answer>" in told
    assert "passage 0" not in told


def test_a_question_longer_than_the_budget_is_clipped() -> None:
    told = render_episode(trajectory(Turn("no"), question="why " * 500), tokens=60)
    assert len(told) <= 60 * 4
    assert "[...]" in told


def test_clipping_keeps_both_ends() -> None:
    assert clip("a" * 50 + "b" * 50, 30) == "a" * 11 + " [...] " + "b" * 12
    assert clip("short", 30) == "short"
    assert clip("a" * 100, 10) == ""
