"""The task as evoprompt sees it: questions, protocol, scoring, bank and diagnosis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from evoprompt_tiny.hosts import host_defaults
from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from evoprompt.agents import ChatTokenizer, Episode, Protocol, Sampler
from evoprompt.agents.tasks import POLICY, Need, Score, Task
from evoprompt.errors import InputError
from evoprompt.prompts import Prompt, Render, system_message
from evoprompt.roles import BuildContext
from evoprompt.types import Candidate, Question, Trajectory
from evoprompt_search_qa import protocol
from evoprompt_search_qa.bank import SEED_IDEAS, compose, sentence_bank
from evoprompt_search_qa.diagnosis import diagnose
from evoprompt_search_qa.evaluation import HEADLINE, score
from evoprompt_search_qa.methods.steps import methods
from evoprompt_search_qa.methods.tiny import TINY
from evoprompt_search_qa.tiny.questions import make_splits
from evoprompt_search_qa.tiny.retriever import Retriever
from evoprompt_search_qa.tiny.world import World
from evoprompt_search_qa.tool import SearchCaller

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

SHIPPED_POLICY = Path(__file__).parent / "weights"
"""The pretrained policy that comes with the package; see ``pretrain.py``."""

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role == 'system' %}{{ message.content }} "
    f"{{% else %}}{protocol.QUESTION} {{{{ message.content }}}} {{% endif %}}"
    "{% endfor %}"
    f"{{% if add_generation_prompt %}}{protocol.RESPONSE}{{% endif %}}"
)
"""Renders instruction and question as ``protocol.plain_prompt`` does; veRL speaks in messages."""

PRETRAINING_WORLDS = range(1000, 1040)
"""Worlds of the supervised stage; nothing else may use them."""


class SearchQaSettings(BaseModel):
    """What can be chosen about the task.

    Attributes:
        world: seed of the knowledge base to train and test in.
        transfer_world: seed of a second one, with other facts, for the ``transfer`` split.
        train: training questions.
        validation: validation questions, for curves and for choosing settings.
        test: test questions, for results alone; as many again are asked for transfer.
        policy: folder of the pretrained policy; by default the one that is shipped.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    world: int = Field(default=7, ge=0)
    transfer_world: int = Field(default=8, ge=0)
    train: int = Field(default=600, ge=16)
    validation: int = Field(default=200, ge=10)
    test: int = Field(default=300, ge=10)
    policy: Path = SHIPPED_POLICY

    @model_validator(mode="after")
    def _check_worlds(self) -> SearchQaSettings:
        for name in ("world", "transfer_world"):
            if getattr(self, name) in PRETRAINING_WORLDS:
                raise InputError(
                    f"{name} is {getattr(self, name)}, where the policy was pretrained; required: "
                    f"none of {PRETRAINING_WORLDS.start} to {PRETRAINING_WORLDS.stop - 1}; "
                    "choose another seed"
                )
        if self.world == self.transfer_world:
            raise InputError(
                f"world and transfer_world are both {self.world}; required: two different worlds; "
                "change one"
            )
        return self


class SearchQa(Task):
    """Multi-hop questions over a synthetic knowledge base, with a search tool.

    Args:
        settings: what was chosen.
    """

    Settings = SearchQaSettings
    headline = HEADLINE
    seed_instructions = (compose(SEED_IDEAS),)
    required = (protocol.SEARCH, protocol.END_SEARCH, protocol.ANSWER, protocol.END_ANSWER)
    bank = sentence_bank()
    limits = protocol.TINY_LIMITS
    methods = methods(TINY)

    @classmethod
    def build(cls, settings: SearchQaSettings, context: BuildContext) -> SearchQa:
        """Makes the task as ``settings`` describe it."""
        return cls(settings)

    def __init__(self, settings: SearchQaSettings | None = None) -> None:
        self.settings = settings or SearchQaSettings()
        template: dict[str, JsonValue] = {
            "actor_rollout_ref.model.custom_chat_template": CHAT_TEMPLATE
        }
        usual = host_defaults(self.settings.policy, self.limits)
        self.host_defaults = {
            name: settings if name == "trl" else {**settings, "arguments": template}
            for name, settings in usual.items()
        }

    @property
    def render(self) -> Render:
        """The instruction and the question, with the marks the policy was pretrained on.

        In messages the instruction is the system's; ``CHAT_TEMPLATE`` adds the marks.
        """
        return _rendered

    def protocol(self, tokenizer: ChatTokenizer) -> Protocol:
        """Tags, with single spaces between words."""
        return protocol.TINY

    @cached_property
    def splits(self) -> dict[str, tuple[Question, ...]]:
        """The questions by split: train, validation, test and transfer.

        The first three are disjoint. Those of the transfer world are drawn anew: with the default
        sizes 134 of its 300 read like one of the other world, 66 of them like a training question.
        Their facts are others: 4 of the 134 have the same answer.
        """
        settings = self.settings
        sizes = (settings.train, settings.validation, settings.test)
        home = make_splits(World.random(settings.world), *sizes)
        abroad = make_splits(World.random(settings.transfer_world), *sizes)
        return {**home, "transfer": abroad["test"]}

    @cached_property
    def retriever(self) -> Retriever:
        """The search tool of the world that is trained in."""
        return Retriever(World.random(self.settings.world).passages)

    @cached_property
    def transfer_retriever(self) -> Retriever:
        """The search tool of the second world."""
        return Retriever(World.random(self.settings.transfer_world).passages)

    def questions(self, split: str) -> tuple[Question, ...]:
        """The questions of ``split``.

        Raises:
            InputError: there is no such split.
        """
        if split not in self.splits:
            raise InputError(
                f"split is {split!r}; required: one of {', '.join(self.splits)}; choose one"
            )
        return self.splits[split]

    def tool(self, split: str) -> Retriever:
        """The search tool that goes with the questions of ``split``."""
        return self.transfer_retriever if split == "transfer" else self.retriever

    def caller(self, split: str) -> SearchCaller:
        """Searches the world of ``split``."""
        search = self.tool(split).search
        return SearchCaller(lambda queries: [search(query) for query in queries], protocol.joined)

    def sampler(
        self, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, temperature: float
    ) -> Sampler | None:
        """Keeps what the policy has read, all rollouts side by side; None for other models."""
        if model.config.model_type != "llama":
            return None
        from evoprompt_tiny.sampler import CacheSampler

        return CacheSampler(model, tokenizer, self.limits.response_tokens, temperature)

    def needs(self) -> Sequence[Need]:
        """The pretrained policy."""
        folder = self.settings.policy
        if (folder / "model.safetensors").is_file():
            return [Need(POLICY, f"{folder} is here")]
        remedy = f"python -m evoprompt_search_qa.tiny.pretrain --output {folder}"
        return [Need(POLICY, f"{folder} holds no model.safetensors", remedy)]

    def score(self, episode: Episode, question: Question) -> Score:
        """Exact match; the strata are the numbers of hops."""
        return score(episode, question, str(question.row["hops"]))

    def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
        """What went wrong in a failed trajectory; see ``diagnosis.py``."""
        return diagnose(trajectory)


def _rendered(prompt: Prompt, candidate: Candidate) -> Prompt:
    if isinstance(prompt, str):
        return protocol.plain_prompt(candidate.text, prompt)
    return system_message(prompt, candidate)
