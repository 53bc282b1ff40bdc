"""The host ``rejection``: supervised training on the policy's own rollouts that were right."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import torch

from evoprompt.agents import Episode
from evoprompt.agents.tasks import Evaluation, Trial
from evoprompt.engine import Engine
from evoprompt.errors import InputError
from evoprompt.types import Assignment, Question, Trajectory
from evoprompt_search_qa import protocol, scoring
from evoprompt_search_qa.tiny.agent import SearchAgent
from evoprompt_search_qa.tiny.task import SearchQa
from evoprompt_search_qa.training.fit import Example, fit
from evoprompt_search_qa.training.offline import OfflineTrainee
from evoprompt_search_qa.training.settings import RejectionSettings


class RejectionTrainee(OfflineTrainee):
    """A search agent that imitates its own successes.

    As the rejection-sampling baseline of Search-R1 (arXiv 2503.09516): one round of sampling with
    the tool by the untrained policy, then supervised training on the trajectories that ended in
    the right answer, each once, observations masked. Departure: sampling goes on until the budget
    of the trial is spent, so that all arms cost the same.

    Args:
        task: whose questions to use.
        trial: what to do.
        settings: how.
    """

    def __init__(self, task: SearchQa, trial: Trial, settings: RejectionSettings) -> None:
        super().__init__("rejection", task, trial, settings)
        self._rejection = settings

    def train(self, engine: Engine, on_evaluation: Callable[[Evaluation], None]) -> None:
        """Evaluates, samples until the budget is spent, trains and evaluates again.

        Raises:
            InputError: no rollout was right, so that there is nothing to imitate.
        """
        instruction = engine.best.text
        on_evaluation(self.evaluate(instruction, "validation"))
        torch.manual_seed(self.trial.seed)
        kept: dict[tuple[int, ...], Example] = {}
        for questions in self._batches():
            if engine.rollouts >= self.trial.budget:
                break
            if self.stopping:
                return
            for episode in self._sample(engine, questions):
                ids = (*episode.prompt_ids, *episode.completion_ids)
                kept[ids] = Example(ids, [0] * len(episode.prompt_ids) + episode.policy_mask)
        if not kept:
            raise InputError(
                f"none of {engine.rollouts} rollouts was right; required: one to imitate; raise "
                "the budget or give a better instruction"
            )
        settings, trial = self._rejection, self.trial
        fit(self.policy, self.tokenizer, [*kept.values()], settings, trial.seed, trial.directory)
        on_evaluation(self.evaluate(instruction, "validation"))

    def _batches(self) -> Iterator[Sequence[Question]]:
        """Training questions in a random order, over and over."""
        rng = random.Random(self.trial.seed)
        size = self._rejection.questions_per_step
        pool: list[Question] = []
        while True:
            while len(pool) < size:
                fresh = list(self.task.questions("train"))
                rng.shuffle(fresh)
                pool += fresh
            yield pool[:size]
            del pool[:size]

    def _sample(self, engine: Engine, questions: Sequence[Question]) -> list[Episode]:
        """Rollouts of ``questions``, told to the engine; those that were right."""
        agent = SearchAgent(self.policy, self.tokenizer, self.task.tool("train").search)
        count = self._rejection.rollouts_per_question
        assignments = engine.ask(questions, count)
        prompts = [
            protocol.plain_prompt(asked.candidate.text, asked.question.text)
            for asked in assignments
        ]
        episodes = agent.run(prompts, count)
        told = [
            _trajectory(assignments[row // count], row % count, episode)
            for row, episode in enumerate(episodes)
        ]
        engine.tell(told)
        pairs = zip(episodes, told, strict=True)
        return [episode for episode, trajectory in pairs if trajectory.reward == 1.0]


def _trajectory(assignment: Assignment, rollout: int, episode: Episode) -> Trajectory:
    golds = assignment.question.answers
    reward = None if episode.end == "failed" else scoring.exact_match(episode.turns, golds)
    return Trajectory(assignment, reward, rollout, tuple(episode.turns))
