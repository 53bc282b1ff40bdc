"""The instruction goes where the model expects it, and the prompt given is left alone."""

from __future__ import annotations

import copy

import pytest

from evoprompt.hosting.prompts import (
    PLACEMENTS,
    Prompt,
    Render,
    ShowsTools,
    replace_system_message,
    system_message,
    user_prefix,
    without_tool_descriptions,
)
from evoprompt.support.errors import InputError
from evoprompt.types import Candidate

BRIEF = Candidate("c0", {"instruction": "Be brief."})
USER = {"role": "user", "content": "Why?"}
SYSTEM = {"role": "system", "content": "You are kind."}
REPLY = {"role": "assistant", "content": "What?"}
DEVELOPER = {"role": "developer", "content": "Be metric."}
DEVELOPED = {"role": "developer", "content": "Be brief."}
ALONE = {"role": "system", "content": "Be brief."}


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


PARTS = [{"type": "image"}, {"type": "text", "text": "Why?"}]


@pytest.mark.parametrize(
    ("render", "prompt", "expected"),
    [
        (
            system_message,
            [SYSTEM, USER],
            [{"role": "system", "content": "You are kind.\n\nBe brief."}, USER],
        ),
        (
            system_message,
            [{"role": "system", "content": PARTS}, USER],
            [
                {"role": "system", "content": [*PARTS, {"type": "text", "text": "\n\nBe brief."}]},
                USER,
            ],
        ),
        (system_message, [USER, REPLY], [ALONE, USER, REPLY]),
        (replace_system_message, [SYSTEM, USER], [ALONE, USER]),
        (replace_system_message, [USER], [ALONE, USER]),
        (
            system_message,
            [DEVELOPER, USER],
            [{"role": "developer", "content": "Be metric.\n\nBe brief."}, USER],
        ),
        (system_message, [USER, DEVELOPER, USER], [ALONE, USER, DEVELOPER, USER]),
        (replace_system_message, [DEVELOPER, USER], [DEVELOPED, USER]),
        (replace_system_message, [USER, DEVELOPER, USER], [DEVELOPED, USER, USER]),
        (replace_system_message, [SYSTEM, DEVELOPER, USER], [ALONE, USER]),
        (replace_system_message, [USER, REPLY, SYSTEM, USER], [ALONE, USER, REPLY, USER]),
        (
            replace_system_message,
            [SYSTEM, USER, REPLY, DEVELOPER, USER],
            [ALONE, USER, REPLY, DEVELOPER, USER],
        ),
        (
            user_prefix,
            [DEVELOPER, USER],
            [DEVELOPER, {"role": "user", "content": "Be brief.\n\nWhy?"}],
        ),
        (
            user_prefix,
            [SYSTEM, USER, REPLY, USER],
            [SYSTEM, {"role": "user", "content": "Be brief.\n\nWhy?"}, REPLY, USER],
        ),
        (
            user_prefix,
            [{"role": "user", "content": PARTS}],
            [{"role": "user", "content": [{"type": "text", "text": "Be brief.\n\n"}, *PARTS]}],
        ),
        (user_prefix, [REPLY], [{"role": "user", "content": "Be brief."}, REPLY]),
    ],
)
def test_the_instruction_stands_where_its_placement_says(
    render: Render, prompt: Prompt, expected: Prompt
) -> None:
    assert render(prompt, BRIEF) == expected


@pytest.mark.parametrize("render", PLACEMENTS.values())
class TestAll:
    def test_go_before_plain_text(self, render: Render) -> None:
        assert render("Why?", BRIEF) == "Be brief.\n\nWhy?"

    @pytest.mark.parametrize("prompt", [[SYSTEM, USER], [USER], [REPLY], []])
    def test_leave_the_prompt_they_are_given(self, render: Render, prompt: Prompt) -> None:
        before = copy.deepcopy(prompt)
        render(prompt, BRIEF)
        assert prompt == before
