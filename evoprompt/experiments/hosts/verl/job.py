"""Policy in veRL's V1 trainer: start, training, evaluation and saving.

The trainer runs in this process, beside the engine; Ray's workers are veRL's own.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, compress
from pathlib import Path
from typing import TYPE_CHECKING

from evoprompt_verl.prompts import VerlPrompts
from omegaconf import DictConfig, OmegaConf
from ray.exceptions import RayTaskError

from evoprompt.agents.tasks import Evaluation, Score, Task, Trial
from evoprompt.engine import Engine
from evoprompt.experiments.hosts.training import evaluation_of
from evoprompt.experiments.hosts.verl import cluster
from evoprompt.experiments.hosts.verl.arguments import AGENT, LOOPS, TRAIN, VALIDATION
from evoprompt.experiments.hosts.verl.greedy import GreedyEvaluator
from evoprompt.experiments.hosts.verl.merging import merge_adapters
from evoprompt.experiments.hosts.verl.rows import Row, rows, write
from evoprompt.experiments.hosts.verl.trainer import PacedTrainer
from evoprompt.hosting.prompts import Render
from evoprompt.support.errors import InputError
from evoprompt.types import Candidate, Written

if TYPE_CHECKING:
    from evoprompt_verl.host import HostManager

OnEvaluation = Callable[[Evaluation], None]

_PIECE = 2560
"""Questions per request of an evaluation: the rollouts of a step of the paper's size."""


@contextmanager
def _raising_causes() -> Iterator[None]:
    """Raise the error of a worker itself, which is below the traces of Ray's processes."""
    try:
        yield
    except RayTaskError as error:
        raise (error.cause or error) from error


class VerlTrainingJob:
    """Policy in veRL's synchronous ``PPOTrainer``, ready to be trained; its data are written.

    Args:
        config: of veRL.
        task: what to train on.
        trial: the trial.
        loops: the agent loops, as veRL's ``agent_loop_config_path`` takes them.
        save_every: steps between two checkpoints.
        environment: variables of every process.
    """

    def __init__(
        self,
        config: DictConfig,
        task: Task,
        trial: Trial,
        loops: Sequence[Mapping[str, object]],
        save_every: int,
        environment: Mapping[str, str],
    ) -> None:
        self._config = config
        self._task = task
        self._trial = trial
        self._environment = environment
        self._trainer = PacedTrainer(config, trial, save_every)
        self._evaluator: GreedyEvaluator | None = None
        self._engine: Engine | None = None
        # Before an engine is attached, which measures how much room questions and tools leave.
        write(trial.directory / TRAIN, self._rows("train"))
        write(trial.directory / VALIDATION, self._rows("validation"))
        OmegaConf.save(OmegaConf.create(list(map(dict, loops))), trial.directory / LOOPS)

    @property
    def trainer(self) -> PacedTrainer:
        """Return the trainer, to which the engine is attached."""
        return self._trainer

    @property
    def render(self) -> Render:
        """Return the function that places the instruction in the messages of a question."""
        return self._task.render

    @_raising_causes()
    def train(self, engine: Engine, on_evaluation: OnEvaluation) -> None:
        """Train until ``engine.rollouts`` reaches the budget; see :class:`TrainingJob`."""
        self._engine = engine
        self._trainer.follow(
            engine, lambda: on_evaluation(self.evaluate(engine.best.components, "validation"))
        )
        self._trainer.fit(self._start_workers())

    @_raising_causes()
    def save(self, folder: Path) -> None:
        """Write weights and tokenizer as ``transformers`` loads them, by veRL's own writer."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            self._trainer.actor_rollout_wg.save_checkpoint(
                scratch, None, self._trainer.global_steps, max_ckpt_to_keep=None
            )
            weights = Path(scratch) / "huggingface"
            model = self._config.actor_rollout_ref.model
            if model.lora_rank > 0:
                merge_adapters(weights, model.lora_alpha / model.lora_rank)
            if folder.exists():
                shutil.rmtree(folder)
            weights.rename(folder)

    def stop(self) -> None:
        """Request that a running ``train`` saves a checkpoint and returns after this step."""
        self._trainer.stopping = True

    @_raising_causes()
    def evaluate(self, instruction: Written, split: str) -> Evaluation:
        """Evaluate the current policy greedily by the rollout replicas, scored as in training.

        Return means over the questions that fit and had no broken tool; ``unscored`` is the
        share of the remaining questions. A question that is too long for the instruction is not
        played, as veRL would cut it off.

        Raises:
            InputError: training, which starts the workers with the policy, has not begun; or no
                question could be scored.
        """
        if self._evaluator is None or self._engine is None:
            raise InputError(
                "an evaluation was requested before the training; required: train first, which "
                "starts veRL's workers"
            )
        candidate, dataset = Candidate.of(instruction), self._rows(split)
        writer = VerlPrompts(self._config, self._trainer.tokenizer, self.render)
        prompts = [writer.write(row["prompt"], candidate) for row in dataset]  # type: ignore[arg-type]
        max_length = writer.longest_allowed
        fits = [length <= max_length for length in writer.lengths(prompts)]
        rows_and_prompts = zip(dataset, prompts, strict=True)
        greedy_rows = [
            {**row, "raw_prompt": prompt} for row, prompt in compress(rows_and_prompts, fits)
        ]
        scores = chain.from_iterable(
            self._evaluator.score_rows(greedy_rows[start : start + _PIECE])
            for start in range(0, len(greedy_rows), _PIECE)
        )
        reason = next(reversed(self._trainer.failures.pop_reasons()), "it left no score")
        too_long = (
            f"too long for the instruction within data.max_prompt_length {max_length}; raise it"
        )
        results: list[Score | str] = [
            (next(scores) or reason) if fitting else too_long for fitting in fits
        ]
        questions = self._task.questions(split)
        return evaluation_of(questions, results, split, self._task.main_metric, self._engine)

    def _start_workers(self) -> HostManager:
        """Start veRL's workers, which run until the next training begins; return their manager."""
        from verl.trainer.ppo.v1 import AgentLoopManagerTQ

        trainer = self._trainer
        # Where veRL's logger "file" writes.
        os.environ["VERL_FILE_LOGGER_PATH"] = str(self._trial.directory / "metrics.jsonl")
        cluster.start(trainer.config, self._environment)
        trainer.init()
        manager: HostManager = AgentLoopManagerTQ.create(
            config=trainer.config,
            llm_client=trainer.get_llm_client(),
            teacher_client=trainer.get_teacher_client(),
            reward_loop_worker_handles=trainer.get_reward_handles(),
        )
        self._evaluator = GreedyEvaluator(trainer, manager)
        return manager

    def _rows(self, split: str) -> list[Row]:
        return rows(
            self._task.questions(split), split, AGENT, str(self._trial.task.get("name", ""))
        )
