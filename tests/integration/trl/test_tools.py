"""Descriptions of tools evolve with a trainer that was given ``tools=``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny_trl
import torch
from bytewise import bytewise
from contract_runs import EVOLVING
from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, set_seed
from trl.trainer.grpo_trainer import GRPOTrainer

import evoprompt
from evoprompt import Proposer
from evoprompt.roles import ProposalRequest
from evoprompt.support.errors import AttachError
from evoprompt.types import Candidate, Proposal

SHOWS_TOOLS = """
{%- for tool in tools or [] %}[{{ tool.function.name }}: {{ tool.function.description }}]
{% endfor %}
{%- for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}
{%- for call in m.tool_calls or [] %}
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant: {% endif %}"""
FIRST, OTHER = "Looks a word up.", "Tells of a word."


def look(word: str) -> str:
    """Looks something up, as its author describes it.

    Args:
        word: to look up.
    """
    return word


class Describes(Proposer):
    """Writes another description, numbered by how many there were."""

    made = 0

    def propose(self, request: ProposalRequest) -> list[Proposal]:
        """One proposal a place."""
        parent = request.parents[0].candidate
        found = []
        for _ in range(request.count):
            self.made += 1
            written = {**parent.components, "tool:look": f"Finds a word, way {self.made}."}
            found.append(Proposal(written, (parent.id,)))
        return found


def read_in(trainer: Any) -> list[str]:
    """From now on holds what the policy reads in training, but for tokens that it goes on by."""
    read: list[str] = []

    def note(module: torch.nn.Module, given: object, named: dict[str, Any]) -> None:
        ids = named["input_ids"]
        if module.training and ids.shape[1] > 1:
            read.extend(trainer.processing_class.batch_decode(ids))

    trainer.model.register_forward_pre_hook(note, with_kwargs=True)
    return read


def trainer(folder: Path, rewards: Any = tiny_trl.short_words) -> GRPOTrainer:
    tokenizer = bytewise(SHOWS_TOOLS)
    tokenizer.pad_token = tokenizer.eos_token
    # What the model says is text: it is random, and calls nothing.
    said = {"type": "string", "x-regex": "(?s)(.*)"}
    tokenizer.response_schema = {
        "type": "object",
        "properties": {"role": {"const": "assistant"}, "content": said},
    }
    set_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=512,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.eos_token_id,
    )
    return GRPOTrainer(
        model=LlamaForCausalLM(config),  # type: ignore[no-untyped-call]
        reward_funcs=[rewards],
        args=tiny_trl.config(folder, max_steps=5, max_completion_length=4),
        train_dataset=Dataset.from_list(tiny_trl.questions(16)),
        processing_class=tokenizer,
        tools=[look],
    )


def seeds(name: str = "look") -> list[dict[str, str]]:
    return [{"instruction": f"be {how}", f"tool:{name}": text} for how, text in SEEDS.items()]


SEEDS = {"brief": FIRST, "slow": OTHER}


def test_the_policy_reads_the_tools_as_its_candidate_describes_them(tmp_path: Path) -> None:
    given: list[Any] = []

    def rewarded(prompts: list[Any], completions: list[Any], **columns: Any) -> list[float]:
        given.extend(message for prompt in prompts for message in prompt)
        return tiny_trl.short_words(completions)

    trained = trainer(tmp_path, rewarded)
    engine = evoprompt.Engine(
        seeds(), proposer=Describes(), config=evoprompt.EngineConfig(**EVOLVING.settings), seed=1
    )
    evoprompt.attach(trained, engine)
    read = read_in(trained)
    trained.train()
    known = {
        event["components"]["tool:look"]: event["components"]["instruction"]
        for event in engine.log
        if event["event"] in ("seeded", "proposed") and event.get("candidate")
    }
    shown = set()
    for text in read:
        (description,) = [one for one in known if f"[look: {one}]" in text]
        assert known[description] in text, "of the same candidate"
        assert "its author describes" not in text
        shown.add(description)
    assert shown - set(SEEDS.values()), "no evolved description was ever shown"
    assert all("tool_descriptions" not in message for message in given)
    assert trained.tools == [look]


def test_a_tool_that_the_trainer_has_not_is_refused(tmp_path: Path) -> None:
    given = trainer(tmp_path)
    with pytest.raises(AttachError, match=r"c0 describes the tools find; required: .*, look;"):
        evoprompt.attach(given, evoprompt.Engine(seeds("find")))
    evoprompt.attach(given, evoprompt.Engine([Candidate.of("be brief").text])).detach()
