"""Demonstrations as tokens, played by the agent that will be trained, with its tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from evoprompt.agents import Action, Episode, Limits, Result, Sampling, ToolCall, play
from evoprompt.agents.tasks import EpisodeRunner, Task
from evoprompt.hosting.prompts import Prompt
from evoprompt.types import Candidate, Written
from evoprompt_tiny.habits import Script

MASKED = -100
"""Label of a token without a loss, as in ``torch`` and ``transformers``."""


@dataclass(frozen=True, slots=True)
class Example:
    """Demonstration as token ids and labels.

    Attributes:
        ids: prompt and response.
        labels: the same, with all tokens masked that the demonstrator did not write.
    """

    ids: list[int]
    labels: list[int]


class Scene:
    """Scene in which demonstrators play the episodes of a task.

    Args:
        task: with the prompts, protocol, tools and limits of training.
        tokenizer: of the policy.
        split: of the tools.
        limits: of an episode; those of the task if not given.
    """

    def __init__(
        self,
        task: Task,
        tokenizer: PreTrainedTokenizerBase,
        split: str,
        limits: Limits | None = None,
    ) -> None:
        self._render = task.render
        self._call = task.caller(split)
        self._runner = EpisodeRunner(task, tokenizer, limits)
        self._tokenizer = tokenizer

    def play(self, instruction: Written, prompt: Prompt, script: Script) -> Episode:
        """Return the episode of a demonstrator, tokenized as a policy's own episodes are.

        Args:
            instruction: of the prompt, as of a candidate; it may differ from the demonstrator's.
            prompt: of the question.
            script: the demonstrator.
        """
        results: list[Result] = []

        def call_tools(calls: Sequence[ToolCall]) -> Sequence[Result]:
            results.extend(self._call(calls))
            return results[-len(calls) :]

        def sample(
            episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool
        ) -> list[Action]:
            text = script.send(str(results[-1])) if results else next(script)
            ids = self._tokenizer.encode(text, add_special_tokens=False)
            stopped = text.endswith(tuple(sampling.stop))  # otherwise a token of the policy ends it
            return [Action(ids if stopped else [*ids, int(self._tokenizer.eos_token_id)])]

        rendered = self._render(prompt, Candidate.of(instruction))
        (episode,) = play([self._runner.play(rendered)], sample, call_tools)
        return episode


def example(episode: Episode) -> Example:
    """Return the training example of an episode."""
    pairs = zip(episode.completion_ids, episode.policy_mask, strict=True)
    response = [token if is_policy else MASKED for token, is_policy in pairs]
    return Example(episode.context, [MASKED] * len(episode.prompt_ids) + response)
