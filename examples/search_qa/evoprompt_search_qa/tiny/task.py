"""Task of evoprompt: questions, protocol, scoring, bank and diagnosis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from evoprompt_tiny.hosts import host_defaults
from evoprompt_tiny.instructions import compose
from evoprompt_tiny.task import KIND, SplitSizes, TinyTask
from pydantic import Field, JsonValue, field_validator

from evoprompt.agents import ChatTokenizer, Episode, Protocol, ToolCaller, Tools
from evoprompt.agents.tasks import Score
from evoprompt.hosting.prompts import Prompt, Render, system_message
from evoprompt.types import Candidate, Question, Trajectory
from evoprompt_search_qa import protocol
from evoprompt_search_qa.bank import BANK, SEED_IDEAS
from evoprompt_search_qa.diagnosis import diagnose
from evoprompt_search_qa.evaluation import MAIN_METRIC, score
from evoprompt_search_qa.tiny.questions import make_splits
from evoprompt_search_qa.tiny.retriever import Retriever
from evoprompt_search_qa.tiny.world import World

SHIPPED_POLICY = Path(__file__).parent / "weights"
"""The pretrained policy that comes with the package; see ``pretrain.py``."""

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role == 'system' %}{{ message.content }} "
    f"{{% else %}}{protocol.QUESTION} {{{{ message.content }}}} {{% endif %}}"
    "{% endfor %}"
    f"{{% if add_generation_prompt %}}{protocol.RESPONSE}{{% endif %}}"
)
"""Renders instruction and question as ``protocol.plain_prompt`` does; veRL uses messages."""

PRETRAINING_WORLDS = range(1000, 1040)
"""Worlds of the supervised stage; nothing else may use them."""


class SearchQaSettings(SplitSizes):
    """Settings of the task, besides the number of its questions.

    Attributes:
        world: seed of the knowledge base.
    """

    world: int = Field(default=7, ge=0)

    @field_validator("world")
    @classmethod
    def _not_of_pretraining(cls, world: int) -> int:
        if world in PRETRAINING_WORLDS:
            raise ValueError(
                f"the policy was pretrained in the worlds {PRETRAINING_WORLDS.start} to "
                f"{PRETRAINING_WORLDS.stop - 1}; required: another seed"
            )
        return world


class SearchQa(TinyTask):
    """Multi-hop questions over a synthetic knowledge base, with a search tool.

    Args:
        settings: of the task.
    """

    Settings = SearchQaSettings
    main_metric = MAIN_METRIC
    seed_instructions = (compose(BANK, SEED_IDEAS),)
    required = (protocol.SEARCH, protocol.END_SEARCH, protocol.ANSWER, protocol.END_ANSWER)
    bank = BANK
    limits = protocol.TINY_LIMITS

    settings: SearchQaSettings

    def __init__(self, settings: SearchQaSettings | None = None) -> None:
        super().__init__(settings)
        template: dict[str, JsonValue] = {
            "actor_rollout_ref.model.custom_chat_template": CHAT_TEMPLATE
        }
        usual = host_defaults(SHIPPED_POLICY, self.limits)
        self.host_defaults = {
            name: settings if name == "trl" else {**settings, "arguments": template}
            for name, settings in usual.items()
        }

    @property
    def render(self) -> Render:
        """Return the function that renders instruction and question with the pretraining marks.

        In messages the instruction is the system's; ``CHAT_TEMPLATE`` adds the marks.
        """
        return _rendered

    def protocol(self, tokenizer: ChatTokenizer) -> Protocol:
        """Return the protocol of tags, with single spaces between words."""
        return protocol.TINY

    @cached_property
    def world(self) -> World:
        """Return the knowledge base."""
        return World.random(self.settings.world)

    @cached_property
    def splits(self) -> dict[str, tuple[Question, ...]]:
        """Return the questions by split; no question occurs twice."""
        return make_splits(self.world, self.settings.sizes)

    @cached_property
    def retriever(self) -> Retriever:
        """Return the retriever over the knowledge base."""
        return Retriever(self.world.passages)

    def caller(self, split: str) -> ToolCaller:
        """Return the caller that searches the knowledge base."""

        def search(query: str) -> str:
            """Facts that share words with the query."""
            return protocol.joined(self.retriever.search(query))

        return Tools([search], seconds=None)

    def score(self, episode: Episode, question: Question) -> Score:
        """Score by exact match; the kinds are the numbers of hops."""
        hops = question.row[KIND]
        return score(episode, question, "1 hop" if hops == "1" else f"{hops} hops")

    def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
        """Return the diagnoses of a failed trajectory; see ``diagnosis.py``."""
        return diagnose(trajectory)


def _rendered(prompt: Prompt, candidate: Candidate) -> Prompt:
    if isinstance(prompt, str):
        return protocol.plain_prompt(candidate.text, prompt)
    return system_message(prompt, candidate)
