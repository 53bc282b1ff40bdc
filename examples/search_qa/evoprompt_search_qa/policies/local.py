"""A transformers model on this machine, from a folder or the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from evoprompt.errors import InputError
from evoprompt_search_qa import needs
from evoprompt_search_qa.policies.base import Dialogue, PolicyError, Reply, Sampling
from evoprompt_search_qa.policies.revision import weights_revision

Render = Callable[[Dialogue], str]


class LocalPolicy:
    """Decodes batches of dialogues with a causal language model.

    Sampling draws from torch's generator alone.

    Args:
        name: for records.
        model: the weights to use, at the time of each call.
        tokenizer: of the model.
        render: writes a dialogue as the text to continue.
        batch: dialogues decoded at a time.
        revision: of the weights; empty where they are still trained.
    """

    def __init__(
        self,
        name: str,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        render: Render,
        batch: int = 16,
        revision: str = "",
    ) -> None:
        self.name = name
        self._model = model
        self._tokenizer = tokenizer
        self._render = render
        self._batch = batch
        self._revision = revision
        # Padding is never attended to, and some models have no token for it.
        end = tokenizer.eos_token_id
        self._pad: int = tokenizer.pad_token_id if end is None else end

    def revision(self) -> str:
        """Which weights answer; empty where they are still trained."""
        return self._revision

    def written(self, dialogue: Dialogue) -> str:
        """The text to continue."""
        return self._render(dialogue)

    def complete(self, dialogues: Sequence[Dialogue], sampling: Sampling) -> list[Reply]:
        """One reply a dialogue; a :class:`PolicyError` where the context has no room for one."""
        replies: list[Reply] = []
        for start in range(0, len(dialogues), self._batch):
            replies += self._decode(dialogues[start : start + self._batch], sampling)
        return replies

    def _decode(self, dialogues: Sequence[Dialogue], sampling: Sampling) -> list[Reply]:
        prompts: list[list[int]] = [
            self._tokenizer.encode(self._render(dialogue), add_special_tokens=False)
            for dialogue in dialogues
        ]
        room = self._model.config.max_position_embeddings - sampling.max_tokens
        fitting = [row for row, prompt in enumerate(prompts) if len(prompt) <= room]
        replies: list[Reply] = [
            PolicyError(
                f"{self.name}: a prompt has {len(prompt)} tokens, but must have at most {room} to "
                f"leave {sampling.max_tokens} for the reply; give fewer or shorter passages"
            )
            for prompt in prompts
        ]
        texts = self._generate([prompts[row] for row in fitting], sampling) if fitting else []
        for row, text in zip(fitting, texts, strict=True):
            replies[row] = text
        return replies

    @torch.inference_mode()
    def _generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[str]:
        width = max(len(prompt) for prompt in prompts)
        gaps = [width - len(prompt) for prompt in prompts]
        ids = [[self._pad] * gap + [*prompt] for gap, prompt in zip(gaps, prompts, strict=True)]
        seen = [[0] * gap + [1] * (width - gap) for gap in gaps]
        words, strings = self._stops(sampling.stop)
        chosen: dict[str, object] = (
            {"do_sample": True, "temperature": sampling.temperature, "top_k": 0, "top_p": 1.0}
            if sampling.temperature
            else {"do_sample": False, "temperature": None, "top_k": None, "top_p": None}
        )
        if strings:
            chosen |= {"stop_strings": strings, "tokenizer": self._tokenizer}
        device = self._model.device
        output = self._model.generate(  # type: ignore[operator]
            input_ids=torch.tensor(ids, device=device),
            attention_mask=torch.tensor(seen, device=device),
            max_new_tokens=sampling.max_tokens,
            eos_token_id=words,
            pad_token_id=self._pad,
            repetition_penalty=1.0,  # some models bring their own
            **chosen,
        )
        return self._tokenizer.batch_decode(output[:, width:], skip_special_tokens=True)

    def _stops(self, stop: Sequence[str]) -> tuple[list[int], list[str]]:
        """The stops that are tokens, the end of sequence among them, and those that are not."""
        known = self._tokenizer.get_vocab()
        ends = [self._tokenizer.eos_token_id, self._model.generation_config.eos_token_id]
        flat = [one for end in ends for one in (end if isinstance(end, list) else [end])]
        tokens = dict.fromkeys([*flat, *(known[text] for text in stop if text in known)])
        return [one for one in tokens if one is not None], [s for s in stop if s not in known]


def load(model: str, device: str = "cpu", batch: int = 16) -> LocalPolicy:
    """The model of this name or in this folder; with its chat template if it has one.

    Raises:
        InputError: it cannot be loaded.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(model)
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
    folder = needs.model_folder(model)
    revision = weights_revision(folder) if folder is not None else ""
    return LocalPolicy(model, weights, tokenizer, renderer(tokenizer), batch, revision)


def renderer(tokenizer: PreTrainedTokenizerBase) -> Render:
    """Writes instruction and question as training does, and what came after in one stream."""

    def render(dialogue: Dialogue) -> str:
        asked = "\n\n".join(text for text in (dialogue.given, dialogue.question) if text)
        said = "".join(turn.action + turn.observation for turn in dialogue.replied)
        if not tokenizer.chat_template:
            return f"{dialogue.instruction}\n\n{asked}\n\n{said}"
        messages = [
            {"role": "system", "content": dialogue.instruction},
            {"role": "user", "content": asked},
        ]
        prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return f"{prompt}{said}"

    return render
