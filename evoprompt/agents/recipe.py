"""Recipe of the prompts of a training, from which a chat template can repeat them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, JsonValue, ValidationError

from evoprompt.agents.tokenizer import described
from evoprompt.hosting.prompts import (
    PLACEMENTS,
    SYSTEM_ROLES,
    Message,
    Placement,
    Prompt,
    Render,
    ShowsTools,
    SystemRole,
    replace_system_message,
)
from evoprompt.support.errors import InputError
from evoprompt.support.failures import FailureCount
from evoprompt.support.storage import RECIPE_FILE, read_checked
from evoprompt.support.validation import explain
from evoprompt.types import Candidate

PROBES = ("What is the capital of France?", " {{ two }}\n\nlines, an é and 東京 ")
"""Questions whose tokens show whether an export makes the same prompts as the training."""


class Recipe(BaseModel, frozen=True, extra="forbid"):
    """Best candidate, and the form of the training's prompts.

    Attributes:
        candidate: id of the best candidate.
        components: its texts.
        statement: sentence about the evidence that it is better than the first instruction.
        placement: placement of the instruction in the prompt.
        template: the chat template of the training; None for plain text.
        system: the system message that all questions of the training had; empty if none, or
            different ones.
        system_role: the role of that message.
        tools: schemas that the chat template showed, with their own descriptions.
        settings: further variables of the chat template, such as ``enable_thinking``.
        around: special tokens of the tokenizer before and after plain text.
        probes: tokens of :data:`PROBES` by the tokenizer of the training.
        base: name or folder of the model that the training started from.
        step: engine step, in steps.
        rollouts: rollouts spent until that step.
        failures: training rollouts without a reward, of all training rollouts until that step.
        trainer: name of the trainer.
        task: name of the task; empty if the trainer has its own dataset.
    """

    candidate: str
    components: dict[str, str]
    statement: str = ""
    placement: Placement
    template: str | None
    system: str = ""
    system_role: SystemRole = "system"
    tools: list[dict[str, JsonValue]] = []
    settings: dict[str, JsonValue] = {}
    around: tuple[str, str] = ("", "")
    probes: list[list[int]] = []
    base: str = ""
    step: int = 0
    rollouts: int = 0
    failures: FailureCount = FailureCount()
    trainer: str = ""
    task: str = ""

    @property
    def best(self) -> Candidate:
        """Return the best candidate."""
        return Candidate(self.candidate, self.components)

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """Return the tools with the descriptions of this candidate."""
        return described(self.tools, self.best.tool_descriptions)

    @property
    def has_system(self) -> bool:
        """Return whether the prompts of the training began with a message that instructs."""
        return bool(self.system) or self.system_role != "system"

    def prompt(self, question: str) -> str | Sequence[Message]:
        """Return the prompt of a question, as the training would have made it."""
        render = PLACEMENTS[self.placement]
        if self.template is None:
            return render(question, self.best)
        system_messages = (
            [{"role": self.system_role, "content": self.system}] if self.has_system else []
        )
        return render([*system_messages, {"role": "user", "content": question}], self.best)

    @classmethod
    def read(cls, folder: Path) -> Recipe:
        """Return the recipe in ``folder``.

        Raises:
            InputError: the recipe is missing or damaged.
        """
        file = folder / RECIPE_FILE
        try:
            return cls.model_validate(read_checked(file))
        except ValueError as error:
            reason = explain(error, cls) if isinstance(error, ValidationError) else error
            raise InputError(
                f"{file} is damaged ({reason}); required: the file as it was written; name another "
                "checkpoint or export again"
            ) from error
        except FileNotFoundError as error:
            raise InputError(
                f"{folder} holds no {RECIPE_FILE}; required: a folder that evoprompt export wrote, "
                "or a checkpoint that it can export; check the path"
            ) from error


def placement_of(render: Render) -> Placement | None:
    """Return the name of a placement; None for a function that is not evoprompt's."""
    inner = render.render if isinstance(render, ShowsTools) else render
    return next((name for name, function in PLACEMENTS.items() if function is inner), None)


def common_system(prompts: Sequence[Prompt], placement: Placement) -> tuple[SystemRole, str]:
    """Return role and text of the system or developer message that all ``prompts`` begin with.

    The text is empty unless it is one; under ``"replace"`` the role alone matters.
    """
    heads = {_system(prompt) for prompt in prompts}
    if PLACEMENTS[placement] is replace_system_message:
        roles = {role for role, _ in heads}
        return (roles.pop() if len(roles) == 1 else "system"), ""
    role, text = heads.pop() if len(heads) == 1 else ("system", "")
    return (role, text) if text else ("system", "")


def _system(prompt: Prompt) -> tuple[SystemRole, str]:
    if isinstance(prompt, str) or not len(prompt) or prompt[0].get("role") not in SYSTEM_ROLES:
        return "system", ""
    content = prompt[0].get("content")
    return prompt[0]["role"], content if isinstance(content, str) else ""
