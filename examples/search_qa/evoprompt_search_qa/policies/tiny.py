"""The tiny policy, which knows a few hundred words and the protocol of ``protocol.py``."""

from __future__ import annotations

from pathlib import Path

from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from evoprompt_search_qa import protocol
from evoprompt_search_qa.policies.base import Dialogue
from evoprompt_search_qa.policies.local import LocalPolicy
from evoprompt_search_qa.policies.revision import weights_revision
from evoprompt_search_qa.tiny.policy import load_policy

_BATCH = 256


def load(folder: Path) -> LocalPolicy:
    """The policy that pretraining or a run wrote to ``folder``.

    Raises:
        InputError: the folder holds no policy.
    """
    return wrap(*load_policy(folder), name=str(folder), revision=weights_revision(folder))


def wrap(
    policy: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    name: str = "tiny",
    revision: str = "",
) -> LocalPolicy:
    """The policy for use by any method; its weights stay shared."""
    return LocalPolicy(name, policy, tokenizer, render, _BATCH, revision)


def render(dialogue: Dialogue) -> str:
    """The plain prompt, then everything said and shown, which is all that it was trained on."""
    prompt = protocol.plain_prompt(dialogue.instruction, dialogue.question)
    shown = [text for turn in dialogue.turns for text in (turn.action, turn.observation) if text]
    return " ".join([prompt, *shown])
