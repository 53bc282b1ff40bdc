"""The instruction goes where the model expects it, and the prompt given is left alone."""

from __future__ import annotations

import copy

import pytest

from evoprompt.errors import InputError
from evoprompt.prompts import (
    PLACEMENTS,
    Prompt,
    Render,
    ShowsTools,
    replace_system_message,
    system_message,
    user_prefix,
    without_tool_descriptions,
)
from evoprompt.types import Candidate

BRIEF = Candidate("c0", {"instruction": "Be brief."})
USER = {"role": "user", "content": "Why?"}
SYSTEM = {"role": "system", "content": "You are kind."}
REPLY = {"role": "assistant", "content": "What?"}


class TestShowsTools:
    LOOKS = Candidate("c1", {"instruction": "Be brief.", "tool:look": "Looks left."})

    def test_descriptions_travel_in_the_first_message(self) -> None:
        prompt = ShowsTools(system_message)([USER], self.LOOKS)
        assert prompt == [
            {
                "role": "system",
                "content": "Be brief.",
                "tool_descriptions": {"look": "Looks left."},
            },
            USER,
        ]
        messages, descriptions = without_tool_descriptions(prompt)
        assert messages == system_message([USER], BRIEF)
        assert descriptions == {"look": "Looks left."}

    def test_plain_text_has_no_place_for_them(self) -> None:
        with pytest.raises(InputError, match="look evolve, but the prompt is plain text"):
            ShowsTools(system_message)("Why?", self.LOOKS)


class TestSystemMessage:
    def test_follows_the_system_message_of_the_dataset(self) -> None:
        assert system_message([SYSTEM, USER], BRIEF) == [
            {"role": "system", "content": "You are kind.\n\nBe brief."},
            USER,
        ]

    def test_becomes_a_text_part_after_other_parts(self) -> None:
        parts = [{"type": "text", "text": "You are kind."}]
        assert system_message([{"role": "system", "content": parts}, USER], BRIEF) == [
            {"role": "system", "content": [*parts, {"type": "text", "text": "\n\nBe brief."}]},
            USER,
        ]

    def test_adds_one_where_there_is_none(self) -> None:
        assert system_message([USER, REPLY], BRIEF) == [
            {"role": "system", "content": "Be brief."},
            USER,
            REPLY,
        ]


class TestReplaceSystemMessage:
    @pytest.mark.parametrize("own", [[SYSTEM], []])
    def test_takes_the_place_of_the_system_message(self, own: list[dict[str, str]]) -> None:
        assert replace_system_message([*own, USER], BRIEF) == [
            {"role": "system", "content": "Be brief."},
            USER,
        ]


class TestUserPrefix:
    def test_goes_before_the_first_user_message(self) -> None:
        assert user_prefix([SYSTEM, USER, REPLY, USER], BRIEF) == [
            SYSTEM,
            {"role": "user", "content": "Be brief.\n\nWhy?"},
            REPLY,
            USER,
        ]

    def test_becomes_a_text_part_before_other_parts(self) -> None:
        parts = [{"type": "image"}, {"type": "text", "text": "Why?"}]
        assert user_prefix([{"role": "user", "content": parts}], BRIEF) == [
            {"role": "user", "content": [{"type": "text", "text": "Be brief.\n\n"}, *parts]}
        ]

    def test_becomes_the_user_message_where_there_is_none(self) -> None:
        assert user_prefix([REPLY], BRIEF) == [{"role": "user", "content": "Be brief."}, REPLY]


@pytest.mark.parametrize("render", PLACEMENTS.values())
class TestAll:
    def test_go_before_plain_text(self, render: Render) -> None:
        assert render("Why?", BRIEF) == "Be brief.\n\nWhy?"

    @pytest.mark.parametrize("prompt", [[SYSTEM, USER], [USER], [REPLY], []])
    def test_leave_the_prompt_they_are_given(self, render: Render, prompt: Prompt) -> None:
        before = copy.deepcopy(prompt)
        render(prompt, BRIEF)
        assert prompt == before
