"""What decides the result of an evaluation besides its names: written down, and compared later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from evoprompt.types import Turn
from evoprompt_search_qa import needs, protocol
from evoprompt_search_qa.harness.sources import DataSet
from evoprompt_search_qa.methods.dialect import Dialect
from evoprompt_search_qa.policies.base import Dialogue, NamedPolicy

_TEMPERATURE = 0.0
_PASSAGES = 3


class Identity(BaseModel):
    """What must stay the same; what nobody could tell is empty and agrees with everything.

    Attributes:
        model_revision: of the policy's weights.
        corpus: passages and index of the search server.
        questions: digest of every data set, answers included and ``--limit`` not.
        limits: tokens of an action, searches a question, passages a search, temperature.
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
    policy: NamedPolicy, dialect: Dialect, data_sets: Sequence[DataSet], retriever: str | None
) -> Identity:
    """The identity of an evaluation that is about to begin; asks both servers who they are."""
    return Identity(
        model_revision=policy.revision(),
        corpus="the tiny world" if retriever is None else _corpus(retriever),
        questions={data.name: data.digest for data in data_sets},
        limits={
            "action_tokens": dialect.action_tokens,
            "searches": dialect.max_searches,
            "passages": _PASSAGES,
            "temperature": _TEMPERATURE,
        },
        prompt_format=_prompt_format(policy, dialect),
    )


def _corpus(retriever: str) -> str:
    told = needs.served(retriever)
    return f"{told['index']} over {told['corpus']}, {told['fingerprint']}" if told else ""


def _prompt_format(policy: NamedPolicy, dialect: Dialect) -> str:
    action = f"{protocol.SEARCH}QUERY{protocol.END_SEARCH}"
    turns = (
        Turn("", dialect.given("QUERY", ["PASSAGE"])),
        Turn(action, dialect.show(["PASSAGE"])),
    )
    return "\n\n".join(
        [
            policy.written(Dialogue("INSTRUCTION", "QUESTION", turns)),
            dialect.reader,
            dialect.task_for_reader("QUESTION", "THOUGHTS", "QUERY"),
            dialect.digest("QUERY", "READING"),
        ]
    )
