"""Whether co-evolution takes place: what no error would tell of a training that goes on.

That an instruction reached the policy is read from the prompts it was really given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from evoprompt.binding import Binding
from evoprompt.errors import InputError
from evoprompt.evaluation import REWARD
from evoprompt.prompts import Prompt
from evoprompt.rows import text_of
from evoprompt_trl.host import Batch, HostTokenizer, HostTrainer, Row, tokenizer_of


class Evidence(TrainerCallback):
    """Ends a training whose first step placed no instruction, and warns where nothing evolved.

    Args:
        trainer: whose prompts to read.
        binding: told of evaluations and of the end.
    """

    def __init__(self, trainer: HostTrainer, binding: Binding) -> None:
        self._trainer = trainer
        self._binding = binding
        self.found = False

    def holds(self, given: Sequence[Row], written: Sequence[Row], batch: Batch) -> bool:
        """Whether one of the prompts of ``batch`` holds what was written into it.

        Texts are compared as the tokenizer gives them back, without white space: chat templates
        trim, and a tokenizer may not know every word.
        """
        tokenizer = tokenizer_of(self._trainer)
        for before, after, ids, mask in zip(
            given, written, batch["prompt_ids"], batch["prompt_mask"], strict=True
        ):
            asked = _read(tokenizer, ids[mask.bool()].tolist())
            for text in _placed(before.get("prompt", []), after["prompt"]):
                known = _read(
                    tokenizer, tokenizer(text=[text], add_special_tokens=False)["input_ids"][0]
                )
                if known and known in asked:
                    return True
        return False

    def require(self, found: bool) -> None:
        """Takes note of an instruction that was found.

        Raises:
            InputError: none was.
        """
        if not found:
            raise InputError(
                "no prompt of the first step held an instruction: the policy is trained without "
                "one and nothing evolves; required: the prompts that evoprompt writes reach the "
                f"policy; check the render function, and whether a subclass of "
                f"{type(self._trainer).__name__}, a rollout_func or an environment replaces "
                "the prompts it is given"
            )
        self.found = True

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        """Fails where a trainer made its first step past the adapter."""
        self.require(self.found)

    def on_train_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        """Warns if every generation failed, and tells how it ended."""
        self._binding.conclude()

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        """Logs an evaluation, as TRL has just logged it."""
        logged: Mapping[str, object] = state.log_history[-1] if state.log_history else {}
        split = next((key for key in logged if key.endswith("_runtime")), "eval_runtime")
        name = split.removesuffix("_runtime").removeprefix("eval").removeprefix("_")
        numbers = {
            key.removeprefix("eval_"): float(value)
            for key, value in logged.items()
            if key.startswith("eval_") and isinstance(value, int | float)
        }
        self._binding.evaluated(numbers, REWARD, name or "validation")


def _placed(before: Prompt, after: Prompt) -> Iterator[str]:
    """The texts in which ``after`` differs from ``before``."""
    if isinstance(after, str):
        if after != before:
            yield after
        return
    known = [] if isinstance(before, str) else [text_of(message["content"]) for message in before]
    for message in after:
        text = text_of(message["content"])
        if text and text not in known:
            yield text


def _read(tokenizer: HostTokenizer, ids: list[int]) -> str:
    return "".join(tokenizer.batch_decode([ids], skip_special_tokens=False)[0].split())
