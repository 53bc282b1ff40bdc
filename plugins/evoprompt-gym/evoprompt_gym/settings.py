"""Settings of a task of reasoning-gym."""

from __future__ import annotations

from pydantic import BaseModel, Field, JsonValue


class GymSettings(BaseModel, frozen=True, extra="forbid"):
    """Settings of the task ``reasoning-gym``.

    Attributes:
        dataset: name of a data set of the library, such as ``chain_sum``.
        arguments: of that data set; the library checks them.
        seed: of the questions.
        train: training questions.
        validation: validation questions, for curves and for choosing settings.
        test: test questions, only for results.
        tags: whether the answer stands inside ``<answer>`` and ``</answer>``; otherwise the whole
            action is the answer, for models that do not keep to tags.
        turn_tokens: most tokens of an answer, its reasoning included.
    """

    dataset: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    seed: int = Field(0, ge=0, lt=2**31)
    train: int = Field(500, ge=1)
    validation: int = Field(50, ge=1)
    test: int = Field(100, ge=1)
    tags: bool = True
    turn_tokens: int = Field(512, ge=1)
