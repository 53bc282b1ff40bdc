"""The numbers of the engine, and the presets they come in."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, model_validator

from evoprompt.support.errors import InputError
from evoprompt.support.validation import CheckedSettings

Preset = Literal["default", "inspo"]
Grouping = Literal["candidate", "question"]

_EVERY = 15  # the paper's

INSPO: dict[str, Any] = {
    "weights": "window",
    "unmeasured": "zero",
    "reset": "zero",
    "accept": "top",
    "candidates_per_question": 1,
    "evolve_every": 15,
    "evolve_until": 150,
    "prune_every": 5,
    "temperature": 0.2,
    "fill_at_start": True,
}
"""Where Algorithm 1 differs from the default preset; all other numbers are the paper's."""

MOST_PER_QUESTION = 5
"""Candidates per question that ``auto`` takes at most: more than five were not measured."""

PRESETS: dict[Any, dict[str, Any]] = {"default": {}, "inspo": INSPO}
"""What each preset changes."""


class Approval(CheckedSettings, frozen=True):
    """Setting for admissions that wait for the answer of a person.

    Attributes:
        mode: ``"auto"`` for verification alone, ``"ask"`` for a person after it.
        timeout: seconds that training waits for answers in one generation.
        default: the answer where none was given.
    """

    mode: Literal["auto", "ask"] = "auto"
    timeout: float = Field(default=600.0, ge=0, le=86_400, allow_inf_nan=False)
    default: Literal["approve", "refuse"] = "refuse"

    @model_validator(mode="before")
    @classmethod
    def _mode_alone(cls, value: Any) -> Any:
        return {"mode": value} if isinstance(value, str) else value


class EngineConfig(CheckedSettings, frozen=True):
    """Every number of the engine; symbols are the paper's (arXiv 2512.01945).

    ``EngineConfig(preset="inspo")`` is Algorithm 1 with the departures listed in docs/papers.md
    (pruning by the weights of the same step, for one). The default preset departs from it further
    in the fields of :data:`INSPO`, each documented below with its reason. A field given explicitly
    wins over the preset.
    """

    preset: Preset = Field(
        default="default", description="the method; settings given beside it win"
    )
    population_size: int = Field(default=7, ge=1, description="N: most members")
    parents: int = Field(
        default=1,
        ge=1,
        description="N_parent: parents of a generation, and members that pruning always leaves",
    )
    temperature: float = Field(
        default=0.1,
        gt=0,
        allow_inf_nan=False,
        description="tau of Eq. 4, for rewards of 0 to 1; in proportion for another reward_range "
        "(the paper's is 0.2)",
    )
    window: int = Field(
        default=5,
        ge=1,
        description="n of Eq. 6, in steps at which a candidate was drawn; for weights 'window'",
    )
    prune_every: int | None = Field(
        default=None,
        ge=1,
        description="K_p, in steps: the worse half of the members is pruned; null: only where an "
        "admitted candidate needs the place",
    )
    evolve_every: int | None = Field(
        default=None,
        ge=1,
        description="K_e: least steps from one generation to the next; null: none where children "
        "are verified in training (the next begins when all are decided), and else 15",
    )
    evolve_until: int | None = Field(
        default=None,
        ge=0,
        description="T_e, in steps: the last step at which to evolve; null for no end. The paper's "
        "150 of 300 steps belongs to its run length, so only the preset inspo sets it",
    )
    failures_per_request: int = Field(
        default=4,
        ge=1,
        description="failed trajectories that a proposer reads, of more that it is handed",
    )
    verify_questions: int = Field(default=200, ge=1, description="|D_B|, in questions")
    verify_rounds: int = Field(
        default=5,
        ge=1,
        description="most rounds of proposing and verifying in a generation; a proposer that works "
        "in the background has one",
    )
    proposals_per_round: int | None = Field(
        default=None,
        ge=1,
        description="proposals requested per round; null: 6 or 12 with verification in training, "
        "else 1 to 3 for each free place",
    )
    replay_capacity: int = Field(
        default=1024, ge=1, description="trajectories and questions remembered"
    )
    reward_range: tuple[float, float] = Field(
        default=(0.0, 1.0),
        description="the least and the greatest reward there is; failure_below, temperature and "
        "the paper's weight 0 are taken in proportion to it",
    )
    failure_below: float = Field(
        default=0.5,
        allow_inf_nan=False,
        description="a reward under this share of reward_range is a failure",
    )
    grouping: Grouping = Field(
        default="candidate",
        description="what shares a GRPO baseline: a question under one candidate, "
        "or a question under all its candidates",
    )
    candidates_per_question: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        default="auto",
        description="candidates drawn for each question; auto: up to five, as many as divide the "
        "trainer's rollouts of a question, which then share one baseline (grouping 'question')",
    )
    unmeasured: Literal["zero", "explore"] = Field(
        default="explore",
        description="a candidate with fewer than min_groups groups counts as weight 0 (paper), or "
        "as average, is drawn before other members and cannot be pruned: it is unknown, not bad",
    )
    min_groups: int = Field(
        default=2, ge=1, description="scored groups that make a candidate measured"
    )
    weights: Literal["window", "adjusted"] = Field(
        default="adjusted",
        description="where no attributor is given: the mean reward of the last steps (paper, "
        "Eq. 6), or all rewards, adjusted for their questions and steps",
    )
    reset: Literal["zero", "verified"] = Field(
        default="verified",
        description="weights after evolution: 0 (paper), or what verification showed, so that "
        "its rollouts are not thrown away; 'adjusted' weights keep what they knew before",
    )
    accept: Literal["top", "not-worse", "in-training", "all"] = Field(
        default="in-training",
        description="where no verifier is given: admit the best by verified reward (paper), only "
        "those not worse than the best parent on the same questions (of both at most half of a "
        "round), those that lead the incumbent in training, without an extra rollout, or all "
        "without verifying",
    )
    approve: Approval = Field(
        default=Approval(),
        description="'ask' makes admissions wait for `evoprompt pool approve` or refuse, with a "
        "timeout in seconds and a default",
    )
    metrics: Literal["few", "all"] = Field(
        default="few",
        description="what an attached trainer logs in each line: seven numbers, or everything that "
        "is known of population, generations and proposer; the events hold it in any case",
    )
    fill_at_start: bool = Field(
        default=False, description="ask the proposer at step 0 to fill the population to N"
    )

    @property
    def failure_threshold(self) -> float:
        """Return the reward below which a rollout is a failure."""
        low, high = self.reward_range
        return low + self.failure_below * (high - low)

    @property
    def reward_temperature(self) -> float:
        """``tau`` of Eq. 4 in units of the rewards."""
        low, high = self.reward_range
        return self.temperature * (high - low)

    def prunes_at(self, step: int) -> bool:
        """Return whether to prune after ``step``, counted from 1: at every multiple of K_p."""
        return self.prune_every is not None and step % self.prune_every == 0

    def every(self, soon: bool = False) -> int:
        """K_e, in steps; if not given, 1 where a generation may follow ``soon``, and else 15."""
        return self.evolve_every or (1 if soon else _EVERY)

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, values: Any) -> Any:
        preset = values.get("preset") if isinstance(values, dict) else None
        if preset in get_args(Preset):
            values = {**PRESETS[preset], **values}
        return values

    @model_validator(mode="after")
    def _check_together(self) -> EngineConfig:
        low, high = self.reward_range
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise InputError(
                f"reward_range is [{low}, {high}]; required: two finite numbers, the smaller one "
                "first; write the least and the greatest reward there is"
            )
        if self.parents > self.population_size:
            raise InputError(
                f"parents is {self.parents}, more than population_size {self.population_size}; "
                "required: parents <= population_size; lower parents or raise population_size"
            )
        if self.weights == "adjusted" and self.window != type(self).model_fields["window"].default:
            raise InputError(
                f"window is {self.window} with weights 'adjusted', which has none; required: "
                "weights 'window', as in the preset inspo; set it, drop window, or write "
                f"attributor: {{name: window-mean, window: {self.window}}}"
            )
        if self.grouping == "question" and self.candidates_per_question == 1:
            raise InputError(
                f"grouping is 'question' with candidates_per_question "
                f"{self.candidates_per_question}; required: at least 2, else there is nothing to "
                "compare within a group; raise candidates_per_question or use grouping 'candidate'"
            )
        return self

    def candidates_for(self, rollouts: int) -> int:
        """Return the number of candidates of a question with ``rollouts`` rollouts.

        >>> EngineConfig().candidates_for(5), EngineConfig().candidates_for(7)
        (5, 1)
        """
        if self.candidates_per_question != "auto":
            return self.candidates_per_question
        numbers = range(1, MOST_PER_QUESTION + 1)
        return max(number for number in numbers if rollouts % number == 0)

    def rollouts_per_candidate(self, rollouts: int, setting: str, compared: bool = True) -> int:
        """Return the number of rollouts of a question under each of its candidates.

        Args:
            rollouts: rollouts of a question in a step, under all its candidates together.
            setting: the trainer's name for them.
            compared: whether the trainer compares rollouts that share a baseline, so that two are
                needed.

        Raises:
            InputError: the rollouts cannot be divided evenly, or a baseline would have a single
                one.
        """
        candidates = self.candidates_for(rollouts)
        if compared and rollouts < 2:
            raise InputError(
                f"{setting} is {rollouts}; required: at least 2, else there is no baseline to "
                "compare with; raise it"
            )
        if rollouts % candidates:
            raise InputError(
                f"{setting} is {rollouts} with candidates_per_question {candidates}; required: a "
                "multiple of it, so that every candidate gets as many rollouts; change the one or "
                "the other"
            )
        rollouts_each = rollouts // candidates
        alone = self.grouping == "candidate" and self.candidates_per_question != "auto"
        if compared and alone and rollouts_each < 2:
            raise InputError(
                f"{setting} is {rollouts} with candidates_per_question {candidates}, which leaves "
                "1 rollout a candidate; required: at least 2 with grouping 'candidate', else there "
                "is no baseline to compare with; raise the one, lower the other, or use grouping "
                "'question'"
            )
        return rollouts_each
