"""A transformers model on this machine, from a folder or the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from evoprompt.agents import Action, Broken, Episode, Sampling
from evoprompt.errors import InputError
from evoprompt.experiments.hosts.trl.generation import GREEDY, generate, load_tokenizer
from evoprompt.experiments.requirements import model_folder
from evoprompt_search_qa.policies.base import Policy
from evoprompt_search_qa.policies.revision import weights_revision


class ModelSampler:
    """Samples batches of episodes with a causal language model, from torch's generator alone.

    Args:
        model: the weights to use, at the time of each call.
        tokenizer: of the model.
        batch: episodes in one forward pass.
    """

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, batch: int = 16
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._batch = batch

    def __call__(
        self, episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool
    ) -> list[Action | Broken]:
        """One action per episode; ``Broken`` where the context has no room for one."""
        choice = GREEDY if greedy else {"do_sample": True, "temperature": 1.0, "top_k": 0}
        room = self._model.config.max_position_embeddings - sampling.max_tokens
        contexts = [episode.context for episode in episodes]
        fitting = [context for context in contexts if len(context) <= room]
        said: list[Action] = []
        for start in range(0, len(fitting), self._batch):
            chunk = fitting[start : start + self._batch]
            said += generate(self._model, self._tokenizer, chunk, sampling, choice)
        actions = iter(said)
        return [
            next(actions)
            if len(context) <= room
            else Broken(
                f"a context has {len(context)} tokens, but must have at most {room} to leave "
                f"{sampling.max_tokens} for the reply; give fewer or shorter passages"
            )
            for context in contexts
        ]


def load(model: str, device: str = "cpu", batch: int = 16) -> Policy:
    """The model of this name or in this folder; with its chat template if it has one.

    Raises:
        InputError: it cannot be loaded.
    """
    try:
        tokenizer = load_tokenizer(model)
        weights: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            model, dtype=torch.float32 if device == "cpu" else torch.bfloat16
        )
        weights.to(torch.device(device))  # type: ignore[arg-type]  # a decorator hides the signature
    except (OSError, ValueError, RuntimeError, AssertionError) as error:  # the last: no CUDA
        told = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(
            f"policy is {model!r}, which cannot be loaded ({told[0]}); required: a folder that "
            "transformers can load, or the name of a model on the Hugging Face hub"
        ) from error
    weights.eval()  # type: ignore[no-untyped-call]
    folder = model_folder(model)
    revision = weights_revision(folder) if folder is not None else ""
    return Policy(model, tokenizer, lambda: ModelSampler(weights, tokenizer, batch), revision)
