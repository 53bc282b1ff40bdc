"""How a policy was asked in training: all that a chat template has to do again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue

from evoprompt.agents.tokenizer import described
from evoprompt.hosting.prompts import (
    PLACEMENTS,
    Message,
    Placement,
    Prompt,
    Render,
    ShowsTools,
    replace_system_message,
)
from evoprompt.support.errors import InputError
from evoprompt.support.storage import RECIPE_FILE
from evoprompt.support.validation import read_json
from evoprompt.types import Candidate

PROBES = ("What is the capital of France?", " {{ two }}\n\nlines, an é and 東京 ")
"""Questions whose tokens tell whether an export asks as the training did."""


class Recipe(BaseModel):
    """The best candidate, and how the prompts of the training were made from it.

    Attributes:
        candidate: id of the best candidate.
        components: its texts.
        statement: whether it is shown to be better than the first instruction, in words.
        placement: where the instruction stands.
        template: the chat template of the training; None for plain text.
        system: the system message that all questions of the training had; empty if none, or
            different ones.
        tools: schemas that the chat template showed, with their own descriptions.
        settings: further variables of the chat template, such as ``enable_thinking``.
        around: special tokens that the tokenizer puts before and after plain text.
        probes: tokens of :data:`PROBES`, as the training's own tokenizer gave them.
        base: name or folder of the model that the training started from.
        step: engine step, in steps.
        rollouts: spent until then.
        trainer: name of the trainer.
        task: name of the task; empty where a trainer brought its own dataset.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    candidate: str
    components: dict[str, str]
    statement: str = ""
    placement: Placement
    template: str | None
    system: str = ""
    tools: list[dict[str, JsonValue]] = []
    settings: dict[str, JsonValue] = {}
    around: tuple[str, str] = ("", "")
    probes: list[list[int]] = []
    base: str = ""
    step: int = 0
    rollouts: int = 0
    trainer: str = ""
    task: str = ""

    @property
    def best(self) -> Candidate:
        """The candidate."""
        return Candidate(self.candidate, self.components)

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """The tools as the policy was shown them under this candidate."""
        return described(self.tools, self.best.tool_descriptions)

    def prompt(self, question: str) -> str | Sequence[Message]:
        """The prompt of a question, as the training would have made it."""
        render = PLACEMENTS[self.placement]
        if self.template is None:
            return render(question, self.best)
        own = [{"role": "system", "content": self.system}] if self.system else []
        return render([*own, {"role": "user", "content": question}], self.best)

    @classmethod
    def read(cls, folder: Path) -> Recipe:
        """The recipe in ``folder``.

        Raises:
            InputError: there is none, or it is damaged.
        """
        try:
            return read_json(folder / RECIPE_FILE, cls, "is damaged", "export again")
        except FileNotFoundError as error:
            raise InputError(
                f"{folder} holds no {RECIPE_FILE}; required: a folder that evoprompt export wrote, "
                "or a checkpoint that it can export; check the path"
            ) from error


def placement_of(render: Render) -> Placement | None:
    """The name of a placement; None for a function that is not one of ours."""
    own = render.render if isinstance(render, ShowsTools) else render
    return next((name for name, function in PLACEMENTS.items() if function is own), None)


def common_system(prompts: Sequence[Prompt], placement: Placement) -> str:
    """The system message that all ``prompts`` begin with; empty unless it is one text."""
    if PLACEMENTS[placement] is replace_system_message:
        return ""
    found = {_system(prompt) for prompt in prompts}
    return found.pop() if len(found) == 1 else ""


def _system(prompt: Prompt) -> str:
    if isinstance(prompt, str) or not len(prompt) or prompt[0].get("role") != "system":
        return ""
    content = prompt[0].get("content")
    return content if isinstance(content, str) else ""
