"""Conversations by key: who is asked under what, what the engine is told, and what is kept."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from contract_runs import EngineSpec
from gateway_kills import ENGINE, GROUPS, ROLLOUTS, have

from evoprompt import Engine, EvopromptWarning, InputError, Question
from evoprompt.gateway.conversations import (
    Conversations,
    GatewayStoppedError,
    UnknownConversationError,
)
from evoprompt.gateway.settings import GatewaySettings
from evoprompt.support.errors import AttachError, StateError

QUESTION = Question("q", "What is 2 + 2?", ("4",))


class Clock:
    """Time that tests make pass."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def conversations(
    folder: Path, engine: Engine | None = None, clock: Clock | None = None, **given: Any
) -> Conversations:
    fields = {"rollouts": 2, "groups": 1, "timeout": 100.0, **given}
    settings = GatewaySettings(upstream="http://127.0.0.1:9/v1", directory=folder, **fields)
    return Conversations(engine or ENGINE.build(), settings, clock or Clock())


def answered(one: Conversations, key: str) -> str:
    """An answer of the model in the conversation; the id of its candidate."""
    with one.calling(key) as candidate:
        one.record_answer(key, "", "4")
    return candidate.id


def events(one: Conversations, kind: str) -> list[dict[str, Any]]:
    return [event for event in one.engine.log if event["event"] == kind]


def test_the_engine_is_told_of_a_group_when_all_its_conversations_have_a_reward(
    tmp_path: Path,
) -> None:
    one = conversations(tmp_path, EngineSpec(("be brief",), evolves=False).build())
    keys = [one.conversation(QUESTION, "g") for _ in range(2)]
    assert len(set(keys)) == 2
    for key in keys:
        answered(one, key)
    assert one.reward(keys[0], 1.0) == ""
    assert one.engine.step == 0
    one.reward(keys[1], 0.5, "Nearly.", {"calls": 1.0})
    assert one.engine.step == 1
    (told,) = events(one, "step_completed")
    assert told["reward"] == 0.75
    assert told["metrics"] == {"calls": 1.0}
    failures = one.engine.replay.failures(4, one.engine.rng)
    assert [failure.text for failure in failures] == []
    one.close()


def test_a_step_is_as_many_groups_as_were_said(tmp_path: Path) -> None:
    one = conversations(tmp_path, rollouts=ROLLOUTS, groups=GROUPS)
    have(one, 0)
    (told,) = events(one, "step_completed")
    assert told["trajectories"] == ROLLOUTS * GROUPS
    assert len(events(one, "questions_assigned")) == GROUPS
    one.close()


def test_writers_read_what_was_said_and_answered(tmp_path: Path) -> None:
    one = conversations(tmp_path, EngineSpec(("be brief",), evolves=False).build())
    for reward in (0.0, 1.0):
        key = one.conversation(QUESTION, "g")
        with one.calling(key):
            one.record_answer(key, "", "Let me look.")
        with one.calling(key):
            one.record_answer(key, "It says 5.", "5" * 5000)
        one.reward(key, reward, "It is 4.")
    (failed,) = one.engine.replay.failures(1, one.engine.rng)
    assert failed.turns[0].action == "Let me look."
    assert failed.turns[0].observation == "It says 5."
    assert len(failed.turns[1].action) <= 1600
    assert failed.feedback == "It is 4."
    one.close()


def test_candidates_share_a_group_and_take_turns_in_a_step(tmp_path: Path) -> None:
    """Before any is measured, groups that are asked one by one go to all alike."""
    spec = EngineSpec(("one", "two", "three", "four", "five", "six"), evolves=False)
    one = conversations(tmp_path, spec.build(), rollouts=3, groups=8)
    drawn: Counter[str] = Counter()
    for group in range(4):
        keys = [one.conversation(QUESTION, f"g{group}") for _ in range(3)]
        drawn.update(answered(one, key) for key in keys)
    assert sorted(drawn.values()) == [2] * 6
    one.close()


def test_a_conversation_keeps_its_candidate_and_one_group_is_one_question(tmp_path: Path) -> None:
    spec = EngineSpec(("one", "two"), settings={"candidates_per_question": 1, "accept": "all"})
    one = conversations(tmp_path, spec.build())
    keys = [one.conversation(QUESTION, "g") for _ in range(2)]
    assert len({answered(one, key) for key in keys for _ in range(3)}) == 1
    one.close()


def test_without_a_group_a_conversation_joins_one_of_its_question_that_has_room(
    tmp_path: Path,
) -> None:
    one = conversations(tmp_path)
    keys = [one.conversation(QUESTION) for _ in range(3)]
    other = one.conversation(Question("r", "Why?"))
    assert one.conversation(QUESTION, key=keys[0]) == keys[0]
    assert events(one, "step_completed") == []
    for key in keys[:2]:
        answered(one, key)
        one.reward(key, 1.0)
    assert one.engine.step == 1
    for key in (keys[2], other):
        answered(one, key)
        one.reward(key, 1.0)
    assert one.engine.step == 1
    one.close()


@pytest.mark.parametrize(
    "again",
    [
        {"question": Question("r", "Why?"), "group": "g", "key": "mine"},
        {"question": Question("q", "What is 2 + 3?"), "group": "g", "key": "mine"},
        {"question": QUESTION, "group": "h", "key": "mine"},
        {"question": Question("r", "Why?"), "group": "g", "key": ""},
        {"question": QUESTION, "group": "g", "key": "third"},
    ],
)
def test_a_key_or_a_group_of_another_question_or_one_too_many_is_refused(
    tmp_path: Path, again: dict[str, Any]
) -> None:
    one = conversations(tmp_path)
    one.conversation(QUESTION, "g", "mine")
    one.conversation(QUESTION, "g")
    assert one.conversation(QUESTION, "g", "mine") == "mine"
    with pytest.raises(InputError, match="required"):
        one.conversation(**again)
    answered(one, "mine")
    assert one.reward("mine", 1.0) == ""
    one.close()


@pytest.mark.parametrize(
    "question",
    [Question("q", "?", row={"x": object()}), Question("q", "\ud800"), "?"],  # type: ignore[dict-item]
)
def test_a_question_that_cannot_be_written_down_is_refused(
    tmp_path: Path, question: Question
) -> None:
    one = conversations(tmp_path)
    with pytest.raises(InputError, match=r"the question is .*required: an evoprompt\.Question"):
        one.conversation(question, "g")
    one.close()


def test_rewards_of_unknown_and_ended_conversations_are_refused(tmp_path: Path) -> None:
    one = conversations(tmp_path)
    key = one.conversation(QUESTION, "g")
    with pytest.raises(UnknownConversationError):
        one.reward("nobody's", 1.0)
    answered(one, key)
    one.reward(key, 1.0)
    with pytest.raises(UnknownConversationError):
        one.reward(key, 1.0)
    with pytest.raises(UnknownConversationError), one.calling(key):
        pass
    one.close()


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), 1e200])
def test_a_reward_that_is_no_number_is_refused_and_the_conversation_goes_on(
    tmp_path: Path, reward: float
) -> None:
    one = conversations(tmp_path)
    key = one.conversation(QUESTION, "g")
    answered(one, key)
    with pytest.raises(InputError, match=r"^reward is .*(finite|less than or equal).*; required: "):
        one.reward(key, reward)
    assert one.reward(key, 0.5) == ""
    one.close()


def test_a_reward_without_an_answer_that_came_whole_says_nothing_of_the_instruction(
    tmp_path: Path,
) -> None:
    one = conversations(tmp_path, rollouts=3)
    never, broken, mended = (one.conversation(QUESTION, "g") for _ in range(3))
    for key in (broken, mended):
        answered(one, key)
        with one.calling(key):
            one.record_answer(key, "", "", broken="the upstream died")
    answered(one, mended)
    assert "never answered" in one.reward(never, 0.0)
    assert one.reward(broken, 0.0) == "the upstream died"
    with pytest.warns(EvopromptWarning, match="^2 of 3 rollouts of step 1 have no reward"):
        assert one.reward(mended, 1.0) == ""
    (told,) = events(one, "step_completed")
    assert (told["unscored"], told["reward"]) == (2, 1.0)
    one.close()


def test_silence_ends_a_group_and_what_is_open_in_it_has_failed(tmp_path: Path) -> None:
    clock = Clock()
    one = conversations(tmp_path, clock=clock, rollouts=3)
    keys = [one.conversation(QUESTION, "g") for _ in range(2)]
    answered(one, keys[0])
    one.reward(keys[0], 1.0)
    clock.now = 99.0
    one.expire()
    with one.calling(keys[1]):
        clock.now = 500.0
        one.expire()  # it is busy
        assert one.engine.step == 0
    clock.now = 600.0
    with pytest.warns(EvopromptWarning, match="^2 of 3 rollouts of step 1 have no reward"):
        one.expire()
    (told,) = events(one, "step_completed")
    assert (told["trajectories"], told["unscored"], told["reward"]) == (3, 2, 1.0)
    with pytest.raises(UnknownConversationError):
        one.reward(keys[1], 1.0)
    one.close()


def test_a_group_that_never_asked_is_no_part_of_a_step(tmp_path: Path) -> None:
    clock = Clock()
    one = conversations(tmp_path, clock=clock)
    key = one.conversation(QUESTION, "g")
    clock.now = 101.0
    one.expire()
    assert one.engine.step == 0
    with pytest.raises(UnknownConversationError):
        one.reward(key, 1.0)
    one.close()


def test_rewards_that_come_a_hundred_steps_late_are_left_out(tmp_path: Path) -> None:
    one = conversations(tmp_path, EngineSpec(("be brief",), evolves=False).build())

    def had(group: str) -> list[str]:
        keys = [one.conversation(QUESTION, group) for _ in range(2)]
        for key in keys:
            answered(one, key)
        return keys

    late = had("late")
    for step in range(102):
        for key in had(f"{step}"):
            one.reward(key, 1.0)
    for key in late:
        one.reward(key, 0.0)
    assert one.engine.step == 103
    assert events(one, "step_completed")[-1]["trajectories"] == 0
    one.close()


@pytest.mark.parametrize("ended", ["closed", "killed"])
def test_open_conversations_go_on_where_they_were(tmp_path: Path, ended: str) -> None:
    one = conversations(tmp_path)
    keys = [one.conversation(QUESTION, "g") for _ in range(2)]
    before = [answered(one, key) for key in keys]
    one.reward(keys[0], 1.0)
    if ended == "closed":
        one.close()
    else:
        one._binding.detach()  # the folder's lock goes with its process
    again = conversations(tmp_path)
    assert answered(again, keys[1]) == before[1]
    again.reward(keys[1], 0.0)
    (told,) = events(again, "step_completed")
    assert (told["reward"], told["trajectories"]) == (0.5, 2)
    again.close()


def test_waiting_time_begins_anew_with_the_gateway(tmp_path: Path) -> None:
    one = conversations(tmp_path)
    key = one.conversation(QUESTION, "g")
    one.close()
    clock = Clock()
    clock.now = 10_000.0
    again = conversations(tmp_path, clock=clock)
    again.expire()
    answered(again, key)
    again.close()


def test_a_folder_of_other_settings_or_a_damaged_one_is_refused(tmp_path: Path) -> None:
    one = conversations(tmp_path)
    one.conversation(QUESTION, "g")
    one.close()
    with pytest.raises(StateError, match="same settings"):
        conversations(tmp_path, rollouts=4)
    (journal,) = tmp_path.glob("checkpoint-*")
    (journal / "conversations.jsonl").write_text(json.dumps({"what": "else"}) + "\n")
    with pytest.raises(StateError, match="cannot be continued"):
        conversations(tmp_path)


def test_one_engine_has_one_gateway_and_one_folder_one_process(tmp_path: Path) -> None:
    engine = ENGINE.build()
    one = conversations(tmp_path, engine)
    with pytest.raises(AttachError):
        conversations(tmp_path / "other", engine)
    one.close()
    one.close()
    conversations(tmp_path, ENGINE.build()).close()


def test_a_closed_gateway_takes_nothing_and_says_so(tmp_path: Path) -> None:
    one = conversations(tmp_path)
    key = one.conversation(QUESTION, "g")
    with one.calling(key):
        one.close()
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    remedy = f"it was closed.; required: another one with the directory {tmp_path}"
    uses: list[Callable[[], object]] = [
        lambda: one.conversation(QUESTION, "g"),
        lambda: one.conversation(QUESTION, "g", key=key, upstream="http://127.0.0.1:9/v2"),
        lambda: one.calling(key).__enter__(),
        lambda: one.record_answer(key, "", "4"),
        lambda: one.reward(key, 1.0),
        one.expire,
    ]
    for use in uses:
        with pytest.raises(GatewayStoppedError, match=remedy):
            use()
    assert before == {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    again = conversations(tmp_path)
    answered(again, key)
    again.close()


@pytest.mark.parametrize(
    "settings",
    [
        {"accept": "top", "candidates_per_question": 1},
        {"preset": "inspo"},
    ],
)
def test_an_engine_that_needs_rollouts_of_its_own_is_refused(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    engine = EngineSpec(("be brief",), settings=settings).build()
    with pytest.raises(InputError, match="required"):
        conversations(tmp_path, engine)
    assert not list(tmp_path.iterdir())
    conversations(tmp_path, ENGINE.build()).close()


def test_groups_that_cannot_be_shared_out_have_one_instruction_each(tmp_path: Path) -> None:
    engine = EngineSpec(("be brief",)).build()
    conversations(tmp_path, engine, rollouts=7).close()
    assert engine.selection.candidates_per_question == 1


def test_new_instructions_are_tried_in_the_conversations_that_there_are(tmp_path: Path) -> None:
    one = conversations(tmp_path, rollouts=ROLLOUTS, groups=GROUPS)
    for step in range(6):
        have(one, step)
    assert one.engine.generation_stats.generations >= 1
    assert one.engine.verification_rollouts == 0
    asked = {name for event in events(one, "questions_assigned") for name in event["draws"]}
    assert len(asked) > 1
    one.close()


def test_what_fails_while_it_is_counted_stops_the_gateway_and_is_counted_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = conversations(tmp_path)
    keys = [one.conversation(QUESTION, group) for group in "ggh"]
    for key in keys[:2]:
        answered(one, key)
    one.reward(keys[1], 0.75)

    def fail(trajectories: object) -> None:
        raise ValueError("no room")

    monkeypatch.setattr(one.engine, "tell", fail)
    with pytest.raises(ValueError, match="no room"):
        one.reward(keys[0], 0.25)
    with pytest.raises(GatewayStoppedError, match="no room"):
        one.conversation(QUESTION, "i")
    one.close()
    again = conversations(tmp_path)
    assert events(again, "step_completed")[0]["reward"] == 0.5
    answered(again, keys[2])
    again.close()
