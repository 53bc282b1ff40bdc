"""Whoever rewrites an instruction is told what it has to fit, whatever it is asked to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from evoprompt.lm import Answer, Call, LanguageModel, LmError, LmSettings
from evoprompt.proposers.language import CANDIDATES, LmProposer
from evoprompt.proposers.published import EvoPromptDE, EvoPromptGA, History, Paraphrase
from evoprompt.proposers.reflection import Reflection
from evoprompt.testing.samples import request
from evoprompt.types import Setting

LOOK: Mapping[str, str] = {"name": "look", "description": "Looks a word up."}


class Noting(LanguageModel):
    """Keeps the fields of every call."""

    def __init__(self) -> None:
        super().__init__(LmSettings(model="noting"), given=str)
        self.asked: list[Mapping[str, object]] = []

    def ask(self, calls: Sequence[Call]) -> list[Answer | LmError]:
        self.asked += [call.inputs for call in calls]
        return [Answer({CANDIDATES: ["Be brief."]}) for _ in calls]


@pytest.mark.parametrize("failed", [4, 0])
@pytest.mark.parametrize("kind", [Reflection, History, Paraphrase, EvoPromptGA, EvoPromptDE])
def test_every_writer_is_told_the_setting_the_room_and_why_texts_were_refused(
    kind: type[LmProposer], failed: int
) -> None:
    language = Noting()
    asked = replace(
        request(count=4, history=4, failed=failed),
        required=["<answer>"],
        refusals=["protocol: lost tag <answer>"],
        max_tokens=140,
        setting=Setting("system: [here stands the instruction]", [LOOK], "`right`: 1 if right."),
    )
    kind(language).propose(asked)
    assert language.asked
    for told in language.asked:
        setting = str(told["setting"])
        assert "system: [here stands the instruction]" in setting
        assert '{"name": "look", "description": "Looks a word up."}' in setting
        assert "`right`: 1 if right." in setting
        assert told["refused"] == "- protocol: lost tag <answer>"
        assert told["required"] == "<answer>"
        assert str(told["length"]).startswith("at most 140 tokens, about 100 words")
