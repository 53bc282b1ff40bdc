"""The settings of the host ``frozen``: a model behind a server, which stays as it is."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from evoprompt.lm.settings import BudgetSettings, Prices


class FrozenSettings(BaseModel):
    """What can be chosen about the host ``frozen``.

    Attributes:
        model: ``openai:gpt-4.1-nano``, or with ``base_url`` a name that this server knows.
        base_url: of a server of OpenAI's chat completions, such as ``http://127.0.0.1:8000/v1``.
        key: environment variable that holds the key.
        temperature: of sampling.
        extra_body: further fields of every request, such as ``chat_template_kwargs``.
        turn_tokens: most tokens of an action; null for the task's own limit.
        observation_tokens: most tokens of an observation; null for the task's own limit.
        max_calls: most tool calls of an episode; null for the task's own limit.
        budget: hard limits of ``calls``, ``tokens`` and ``usd`` over all trials of a run.
        prices: in USD per million tokens; null for what the extra ``lm`` knows.
        timeout: longest silence of the server, in seconds.
        seconds: after which no more rollouts are begun in a trial; null for no limit.
        proposals: instructions asked for in an iteration.
        patience: iterations without a better instruction after which a trial ends; 0 only
            measures the seeds; null for as many as take a third of the budget, and 50 at least.
        perfect: the greatest reward there is.
        max_concurrency: rollouts at a time.
        max_tokens: most tokens of an instruction.
        refuse_copies: whether instructions that copy a question that was shown are refused.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = ""
    base_url: str | None = None
    key: str = Field(default="OPENAI_API_KEY", min_length=1)
    temperature: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    extra_body: dict[str, JsonValue] = {}
    turn_tokens: int | None = Field(default=None, ge=1)
    observation_tokens: int | None = Field(default=None, ge=1)
    max_calls: int | None = Field(default=None, ge=0)
    budget: BudgetSettings = BudgetSettings()
    prices: Prices | None = None
    timeout: float = Field(default=300.0, gt=0, allow_inf_nan=False)
    seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    proposals: int = Field(default=1, ge=1)
    patience: int | None = Field(default=None, ge=0)
    perfect: float = Field(default=1.0, allow_inf_nan=False)
    max_concurrency: int = Field(default=8, ge=1)
    max_tokens: int = Field(default=1024, ge=1)
    refuse_copies: bool = True
