"""The host ``sft``: supervised training on questions and their answers, without a tool."""

from __future__ import annotations

from collections.abc import Callable

from evoprompt.agents.tasks import Evaluation, Trial
from evoprompt.engine import Engine
from evoprompt.types import Question
from evoprompt_search_qa import protocol
from evoprompt_search_qa.tiny.task import SearchQa
from evoprompt_search_qa.training.fit import Example, fit
from evoprompt_search_qa.training.offline import OfflineTrainee
from evoprompt_search_qa.training.settings import FitSettings


class SftTrainee(OfflineTrainee):
    """A policy that learns the answers of the training questions by heart.

    As the SFT baseline of Search-R1 (arXiv 2503.09516), which the paper's Table 1 quotes.

    Args:
        task: whose questions to use.
        trial: what to do. No rollout is spent, so that its budget is left untouched.
        settings: how.
    """

    def __init__(self, task: SearchQa, trial: Trial, settings: FitSettings) -> None:
        super().__init__("sft", task, trial, settings)
        self._fit = settings

    def train(self, engine: Engine, on_evaluation: Callable[[Evaluation], None]) -> None:
        """Evaluates, trains and evaluates again."""
        instruction = engine.best.text
        on_evaluation(self.evaluate(instruction, "validation"))
        if self.stopping:
            return
        examples = [self._example(instruction, one) for one in self.task.questions("train")]
        trial = self.trial
        fit(self.policy, self.tokenizer, examples, self._fit, trial.seed, trial.directory)
        on_evaluation(self.evaluate(instruction, "validation"))

    def _example(self, instruction: str, question: Question) -> Example:
        answer = f"{protocol.ANSWER} {question.answers[0]} {protocol.END_ANSWER}"
        prompt = self.tokenizer.encode(protocol.plain_prompt(instruction, question.text))
        response = [*self.tokenizer.encode(answer), self.tokenizer.eos_token_id]
        return Example([*prompt, *response], [0] * len(prompt) + [1] * len(response))
