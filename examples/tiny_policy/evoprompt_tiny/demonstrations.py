"""Demonstrations as tokens, played by the very agent that will be trained, with its tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from evoprompt.agents import Action, Call, Episode, Limits, Result, Sampling, play
from evoprompt.agents.tasks import EpisodeRunner, Task
from evoprompt.hosting.prompts import Prompt
from evoprompt.types import Candidate, Written
from evoprompt_tiny.habits import Script

MASKED = -100
"""The label of a token that nothing is learned from, as ``torch`` and ``transformers`` have it."""


@dataclass(frozen=True, slots=True)
class Example:
    """One demonstration.

    Attributes:
        ids: prompt and response.
        labels: the same, with everything masked that the demonstrator did not write.
    """

    ids: list[int]
    labels: list[int]


class Scene:
    """Where demonstrators play the episodes of a task.

    Args:
        task: whose prompts, protocol, tools and limits are those of training.
        tokenizer: of the policy.
        split: whose tools are called.
        limits: what an episode may use; those of the task if not given.
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

    def play(self, written: Written, prompt: Prompt, script: Script) -> Episode:
        """The episode of a demonstrator, tokenized as a policy's own episodes are.

        Args:
            written: what the prompt shows of what the demonstrator was told, as of a candidate.
            prompt: of the question.
            script: the demonstrator.
        """
        results: list[Result] = []

        def called(calls: Sequence[Call]) -> Sequence[Result]:
            results.extend(self._call(calls))
            return results[-len(calls) :]

        def say(episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool) -> list[Action]:
            said = script.send(str(results[-1])) if results else next(script)
            ids = self._tokenizer.encode(said, add_special_tokens=False)
            stopped = said.endswith(tuple(sampling.stop))  # else the policy ends it by a token
            return [Action(ids if stopped else [*ids, int(self._tokenizer.eos_token_id)])]

        rendered = self._render(prompt, Candidate.of(written))
        (episode,) = play([self._runner.play(rendered)], say, called)
        return episode


def example(episode: Episode) -> Example:
    """What there is to learn from an episode."""
    pairs = zip(episode.completion_ids, episode.policy_mask, strict=True)
    response = [token if own else MASKED for token, own in pairs]
    return Example(episode.context, [MASKED] * len(episode.prompt_ids) + response)
