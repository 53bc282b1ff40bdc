"""What decides the result of an evaluation besides its names: written down, and compared later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evoprompt_retrieval.requirements import served
from pydantic import BaseModel, ConfigDict

from evoprompt.agents import ChatTokenizer
from evoprompt_search_qa.harness.sources import DataSet
from evoprompt_search_qa.methods.dialect import Dialect
from evoprompt_search_qa.policies.base import Policy

_TEMPERATURE = 0.0


class Identity(BaseModel):
    """What must stay the same; what nobody could tell is empty and agrees with everything.

    Attributes:
        model_revision: of the policy's weights.
        corpus: passages and index of the search server.
        questions: digest of every data set, answers included and ``--limit`` not.
        limits: tokens of an action and of an observation, searches per question, passages per
            search, temperature.
        prompt_format: how a dialogue and the task of a reader look.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model_revision: str = ""
    corpus: str = ""
    questions: Mapping[str, str] = {}
    limits: Mapping[str, float] = {}
    prompt_format: str = ""

    @property
    def unknown(self) -> Sequence[str]:
        """Names of what nobody could tell."""
        return [name for name in ("model_revision", "corpus") if not getattr(self, name)]


def identify(
    policy: Policy,
    dialect: Dialect,
    data_sets: Sequence[DataSet],
    retriever: str | None,
    topk: int,
) -> Identity:
    """The identity of an evaluation that is about to begin; asks the search server who it is.

    Args:
        policy: who answers.
        dialect: how it is spoken to.
        data_sets: what is asked.
        retriever: address of the search server, None for the tiny world's own search.
        topk: passages per search.
    """
    return Identity(
        model_revision=policy.revision,
        corpus="the tiny world" if retriever is None else _corpus(retriever),
        questions={data.name: data.digest for data in data_sets},
        limits={
            "action_tokens": dialect.limits.turn_tokens,
            "observation_tokens": dialect.limits.observation_tokens,
            "searches": dialect.limits.calls,
            "passages": topk,
            "temperature": _TEMPERATURE,
        },
        prompt_format=_prompt_format(policy.tokenizer, dialect),
    )


def _corpus(retriever: str) -> str:
    told = served(retriever)
    return f"{told['index']} over {told['corpus']}, {told['fingerprint']}" if told else ""


def _prompt_format(tokenizer: ChatTokenizer, dialect: Dialect) -> str:
    given = dialect.given("QUERY", dialect.shown(("PASSAGE",)))
    prompt = dialect.prompt(tokenizer, "INSTRUCTION", "QUESTION", given)
    written = prompt
    if not isinstance(prompt, str):
        written = tokenizer.apply_chat_template(
            [dict(message) for message in prompt], None, add_generation_prompt=True, tokenize=False
        )
    return "\n\n".join(
        [
            str(written),
            dialect.protocol.opening,
            dialect.protocol.closing,
            dialect.reader,
            dialect.task_for_reader("QUESTION", "THOUGHTS", "QUERY"),
            dialect.digest("QUERY", "READING"),
        ]
    )
