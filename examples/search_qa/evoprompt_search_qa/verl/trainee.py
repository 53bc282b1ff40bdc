"""A policy in veRL's V1 trainer, whatever the task: how it starts, trains, answers and is saved.

The trainer lives in this process, where the engine is; Ray's workers are veRL's own.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evoprompt_verl.prompts import PromptWriter
from omegaconf import DictConfig, OmegaConf

from evoprompt.engine import Engine
from evoprompt.errors import InputError
from evoprompt.events import Notice
from evoprompt.render import Render
from evoprompt.tasks import Evaluation, Trial
from evoprompt.types import INSTRUCTION, Candidate, Question
from evoprompt_search_qa.evaluation import HEADLINE, score
from evoprompt_search_qa.verl import cluster
from evoprompt_search_qa.verl.asking import Asker
from evoprompt_search_qa.verl.rows import Row, rows, write
from evoprompt_search_qa.verl.trainer import PacedTrainer

if TYPE_CHECKING:
    from evoprompt_verl.host import HostManager

OnEvaluation = Callable[[Evaluation], None]
LOOPS = "agent_loops.yaml"
TRAIN, VALIDATION = "train.parquet", "validation.parquet"
"""Files that are written beside the checkpoints before training; a configuration names them."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What a task brings to its training under veRL.

    Attributes:
        config: of veRL.
        save_every: steps between two checkpoints.
        loops: the agent loops, as veRL's ``agent_loop_config_path`` takes them.
        agent: name of the loop that answers the questions of a split.
        questions: of a split.
        source: name of the set a question is from.
        stratum: the group a question counts for in evaluations.
        render: places an instruction in messages.
    """

    config: DictConfig
    save_every: int
    loops: Sequence[Mapping[str, object]]
    agent: Callable[[str], str]
    questions: Callable[[str], Sequence[Question]]
    source: Callable[[Question], str]
    stratum: Callable[[Question], str]
    render: Render


class VerlTrainee:
    """A policy in veRL's synchronous ``PPOTrainer``, ready to be trained; its data are written.

    Args:
        setup: what the task brings.
        trial: what to do.
    """

    def __init__(self, setup: Setup, trial: Trial) -> None:
        self._setup = setup
        self._trial = trial
        self._trainer = PacedTrainer(setup.config, trial, setup.save_every)
        self._asker: Asker | None = None
        self._engine: Engine | None = None
        # Before an engine is attached, which measures how much room the questions leave.
        write(trial.directory / TRAIN, self._rows("train"))
        write(trial.directory / VALIDATION, self._rows("validation"))

    @property
    def trainer(self) -> PacedTrainer:
        """The trainer, to which the engine is attached."""
        return self._trainer

    @property
    def render(self) -> Render:
        """Places the instruction in the messages of a question."""
        return self._setup.render

    def train(self, engine: Engine, on_evaluation: OnEvaluation) -> None:
        """Trains until ``engine.rollouts`` reaches the budget; see :class:`Trainee`."""
        self._engine = engine
        self._trainer.follow(
            engine, lambda: on_evaluation(self.evaluate(engine.best.text, "validation"))
        )
        self._trainer.fit(self._started())

    def save(self, folder: Path) -> None:
        """Writes weights and tokenizer as ``transformers`` loads them, by veRL's own writer."""
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            self._trainer.actor_rollout_wg.save_checkpoint(
                scratch, None, self._trainer.global_steps, max_ckpt_to_keep=None
            )
            if folder.exists():
                shutil.rmtree(folder)
            (Path(scratch) / "huggingface").rename(folder)

    def stop(self) -> None:
        """Asks a running ``train`` to save a checkpoint and return after the current step."""
        self._trainer.stopping = True

    def evaluate(self, instruction: str, split: str) -> Evaluation:
        """Greedy evaluation of the current policy by the rollout replicas.

        Means over the questions that were asked and whose search did not fail; exact match also by
        stratum; ``unscored`` is the share of the others. Not asked is a question that is too long
        for ``instruction``, as veRL would cut the instruction off; a notice says how many.

        Raises:
            InputError: training has not begun, which starts the workers that hold the policy; or
                no question could be asked, or none scored.
        """
        if self._asker is None or self._engine is None:
            raise InputError(
                "the policy was to be evaluated before its training; required: train first, which "
                "starts veRL's workers"
            )
        candidate = Candidate("evaluated", {INSTRUCTION: instruction})
        config = self._setup.config
        writer = PromptWriter.of(config, self._trainer.tokenizer, self._setup.render)
        questions, dataset = self._setup.questions(split), self._rows(split)
        prompts = [writer.write(row["prompt"], candidate) for row in dataset]  # type: ignore[arg-type]
        refusals = writer.refusals(prompts, [candidate] * len(prompts))
        fitting = [index for index, refusal in enumerate(refusals) if not refusal]
        if len(fitting) < len(questions):
            found = (
                f"{len(questions) - len(fitting)} of {len(questions)} {split} questions are too "
                f"long for the instruction within data.max_prompt_length "
                f"{config.data.max_prompt_length}"
            )
            if not fitting:
                raise InputError(f"{found}; required: room in at least one; raise it")
            self._engine.log.append(
                Notice(
                    self._engine.step,
                    f"{found}; they are not asked and count as unscored; raise it to ask them too",
                )
            )
        episodes = self._asker.ask(
            [{**dataset[index], "raw_prompt": prompts[index]} for index in fitting]
        )
        answered = [
            (questions[index], episode)
            for index, episode in zip(fitting, episodes, strict=True)
            if episode is not None
        ]
        if not answered:
            raise InputError(
                f"none of {len(fitting)} {split} questions could be scored, as every search "
                "failed; required: a search tool that answers; start it and resume"
            )
        return Evaluation.of(
            [
                score(episode, question, self._setup.stratum(question))
                for question, episode in answered
            ],
            HEADLINE,
            unscored=1 - len(answered) / len(questions),
        )

    def _started(self) -> HostManager:
        """Starts veRL's workers; they live until the next training begins."""
        from verl.trainer.ppo.v1 import AgentLoopManagerTQ

        trainer, directory = self._trainer, self._trial.directory
        OmegaConf.save(OmegaConf.create(list(map(dict, self._setup.loops))), directory / LOOPS)
        # Where veRL's logger "file" writes.
        os.environ["VERL_FILE_LOGGER_PATH"] = str(directory / "metrics.jsonl")
        cluster.start(trainer.config)
        trainer.init()
        manager: HostManager = AgentLoopManagerTQ.create(
            config=trainer.config,
            llm_client=trainer.get_llm_client(),
            teacher_client=trainer.get_teacher_client(),
            reward_loop_worker_handles=trainer.get_reward_handles(),
        )
        self._asker = Asker(trainer, manager)
        return manager

    def _rows(self, split: str) -> list[Row]:
        setup = self._setup
        return rows(setup.questions(split), setup.source, setup.agent(split))
