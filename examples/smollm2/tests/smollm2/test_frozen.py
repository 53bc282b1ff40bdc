"""Reading with a model that is not trained, behind a server as strict as OpenAI."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from evoprompt_smollm2.bank import ABOUT_LENGTH
from evoprompt_smollm2.reading import SPLITS
from frozen_contract import FrozenContract

from evoprompt.testing.openai_server import Answer, Received

pytestmark = pytest.mark.endpoint

BRIEF = ("few-words", "name-only", "no-sentence", "nothing-else", "short", "no-repeat")
RIVERS = ("Danube", "Rhine", "Elbe", "Oder", "Isar", "Inn", "Lech")


def river(town: int) -> str:
    return f"{RIVERS[town % len(RIVERS)]} number {town}"


class TestReading(FrozenContract):
    yaml = Path(__file__).parents[2] / "reading.yaml"
    task: ClassVar[Mapping[str, Any]] = {}
    budget = 120

    def settings(self, request: pytest.FixtureRequest) -> Mapping[str, Any]:
        folder: Path = request.getfixturevalue("tmp_path")
        for start, split in enumerate(SPLITS):
            rows = [
                {
                    "id": f"{split}-{town}",
                    "question": f"On which river lies town {town}?",
                    "pieces": [f"Town {town} lies on the {river(town)}."],
                    "answers": [river(town)],
                    "source": "nq",
                }
                for town in range(100 * start, 100 * start + 24)
            ]
            (folder / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        return {**super().settings(request), "questions": str(folder)}

    def model(self, settings: Mapping[str, Any]) -> Answer:
        """Is brief if it is told to be."""
        told = [text for idea in BRIEF for text in ABOUT_LENGTH[idea]]

        def answer(body: Mapping[str, Any]) -> str:
            (message,) = body["messages"]
            name = river(int(message["content"].rpartition("town ")[2].partition("?")[0]))
            brief = any(text in message["content"] for text in told)
            return name if brief else f"As the text says, that town lies on the river {name}, I see"

        return answer

    def check_request(self, request: Received) -> None:
        assert "tools" not in request.body
        assert "Question: On which river" in request.body["messages"][0]["content"]
