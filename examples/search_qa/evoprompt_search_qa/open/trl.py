"""A causal language model in TRL's ``GRPOTrainer``, its rollouts played with a search server."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from accelerate.utils import broadcast_object_list, gather_object
from datasets import Dataset
from pydantic import JsonValue
from transformers import PrinterCallback
from trl.trainer.grpo_trainer import GRPOTrainer

from evoprompt.agents import Agent, Company, Episode, encode, play
from evoprompt.engine import Engine
from evoprompt.errors import InputError
from evoprompt.render import Prompt, Render
from evoprompt.tasks import Evaluation, Score, Trial, scored
from evoprompt.types import INSTRUCTION, Candidate, Question
from evoprompt_search_qa import protocol
from evoprompt_search_qa.generation import load_tokenizer
from evoprompt_search_qa.open.samplers import TransformersSampler, VllmSampler
from evoprompt_search_qa.open.settings import arguments, running_processes, validated
from evoprompt_search_qa.open.task import OpenQa
from evoprompt_search_qa.reward import exact_match
from evoprompt_search_qa.trl_schedule import Pace, resumes

OnEvaluation = Callable[[Evaluation], None]


class OpenTrlTrainee:
    """A language model in a ``GRPOTrainer``, ready to be trained.

    With several processes everything here is done by all of them together.

    Args:
        task: whose questions to train on.
        trial: what to do.
        given: settings of ``OpenTrlSettings``.

    Raises:
        InputError: the settings are wrong, or the model or the questions are missing.
    """

    def __init__(
        self, task: OpenQa, trial: Trial, given: Mapping[str, JsonValue] = MappingProxyType({})
    ) -> None:
        self._task = task
        self._trial = trial
        self._settings = validated(given)
        running = running_processes()
        if running != self._settings.processes:
            raise InputError(
                f"host.processes is {self._settings.processes}, but {running} are running; "
                "required: as many; start them with accelerate launch --num_processes "
                f"{self._settings.processes}, or change the setting"
            )
        self._model = str(trial.policy or task.settings.model)
        try:
            self._tokenizer = load_tokenizer(self._model)
        except (OSError, ValueError) as error:
            raise _missing(self._model, error) from error
        self._pace = Pace(trial, self._settings.updates_per_step)
        self._trainer = self._build()
        self._sampler = self._build_sampler()
        self._agent = Agent(protocol.SEARCHING, self._tokenizer, task.settings.limits)
        self._call = task.caller("train")
        end = [self._tokenizer.eos_token_id]
        self._company = Company(self._busiest, end, self._agent.sampling)

    @property
    def trainer(self) -> GRPOTrainer:
        """The trainer, to which the engine is attached."""
        return self._trainer

    @property
    def render(self) -> Render:
        """Places the instruction in the prompt of a question."""
        return self._task.render

    def train(self, engine: Engine, on_evaluation: OnEvaluation) -> None:
        """Trains until ``engine.rollouts`` reaches the budget; see ``Trainee``."""
        self._pace.follow(
            engine, lambda: on_evaluation(self.evaluate(engine.best.text, "validation"))
        )
        self._trainer.train(resume_from_checkpoint=resumes(self._trial))

    def save(self, folder: Path) -> None:
        """Writes weights and tokenizer as ``transformers`` loads them."""
        written = folder.with_name(f".{folder.name}.partial")
        self._trainer.save_model(str(written))
        if self._trainer.accelerator.is_main_process:
            if folder.exists():
                shutil.rmtree(folder)
            written.rename(folder)
        self._trainer.accelerator.wait_for_everyone()

    def stop(self) -> None:
        """Asks a running ``train`` to save a checkpoint and return after the current step."""
        self._pace.stopping = True

    def evaluate(self, instruction: str, split: str) -> Evaluation:
        """Greedy evaluation of the current policy; draws no random number.

        Means over the questions whose search did not fail; the strata are the data sources;
        ``unscored`` is the share of the others.

        Raises:
            InputError: no question could be scored.
        """
        accelerator = self._trainer.accelerator
        shared = [instruction]
        broadcast_object_list(shared)
        candidate = Candidate("", {INSTRUCTION: shared[0]})
        questions = self._task.questions(split)
        mine = questions[accelerator.process_index :: accelerator.num_processes]
        model = self._trainer.model
        assert model is not None
        training = model.training
        model.eval()
        self._sampler.load_weights()
        try:
            found = self._measured(mine, candidate)
        finally:
            model.train(training)
        everything = gather_object(found)
        scores = [one for one in everything if one is not None]
        if not scores:
            raise InputError(
                f"none of {len(questions)} {split} questions could be scored, as every search "
                f"failed; required: a search server at {self._task.settings.retriever}"
            )
        return Evaluation.of(scores, self._task.headline, 1 - len(scores) / len(everything))

    def _measured(self, questions: Sequence[Question], candidate: Candidate) -> list[Score | None]:
        """The score of each question, None where the tool broke."""
        found: list[Score | None] = []
        size = max(1, self._settings.rollouts_per_step // self._settings.processes)
        for start in range(0, self._busiest(len(questions)), size):
            chunk = questions[start : start + size]
            prompts = [self.render(self._prompt(question), candidate) for question in chunk]
            episodes = self._play(prompts, greedy=True)
            found += [
                scored(self._task, episode, question)
                for question, episode in zip(chunk, episodes, strict=True)
            ]
        return found

    def _build(self) -> GRPOTrainer:
        settings, task = self._settings, self._task
        rows = [
            {**question.row, "prompt": self._prompt(question)}
            for question in task.questions("train")
        ]
        args = arguments(settings, task.settings.limits, task.settings.prompt_tokens, self._trial)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="You are using 'rollout_func'")
            try:
                trainer = GRPOTrainer(
                    model=self._model,
                    reward_funcs=exact_match,
                    args=args,
                    train_dataset=Dataset.from_list(rows),
                    processing_class=self._tokenizer,
                    rollout_func=self._rollout,
                    callbacks=[self._pace],
                )
            except OSError as error:
                raise _missing(self._model, error) from error
        # The run has its own display; TRL's lines would tear it.
        trainer.remove_callback(PrinterCallback)
        return trainer

    def _build_sampler(self) -> TransformersSampler | VllmSampler:
        if self._settings.uses_vllm:
            return VllmSampler(self._trainer)
        return TransformersSampler(self._trainer, self._tokenizer, self._settings.at_once)

    def _rollout(self, prompts: Sequence[Prompt], trainer: GRPOTrainer) -> dict[str, Any]:
        """What TRL calls instead of its own sampling: the fields it trains on, and the episodes."""
        del trainer
        episodes = self._play(prompts)
        told = self._settings.uses_vllm
        return {
            "prompt_ids": [episode.prompt_ids for episode in episodes],
            "completion_ids": [episode.completion_ids for episode in episodes],
            "logprobs": [episode.logprobs for episode in episodes] if told else None,
            "env_mask": [episode.policy_mask for episode in episodes],
            "episode": episodes,
        }

    def _prompt(self, question: Question) -> Prompt:
        """Chat messages, or plain text for a model that was never taught to chat."""
        if self._tokenizer.chat_template is None:
            return question.text
        return [{"role": "user", "content": question.text}]

    def _play(self, prompts: Sequence[Prompt], *, greedy: bool = False) -> list[Episode]:
        plays = [self._agent.play(encode(self._tokenizer, prompt)) for prompt in prompts]
        return play(plays, self._sampler, self._call, greedy=greedy, company=self._company)

    def _busiest(self, count: int) -> int:
        accelerator = self._trainer.accelerator
        counts = accelerator.gather(torch.tensor([count], device=accelerator.device))
        return int(counts.max())


def _missing(model: str, error: Exception) -> InputError:
    told = " ".join(str(error).split())[:300]
    return InputError(
        f"task.model is {model!r}, which cannot be loaded ({told}); required: a model on the "
        f"Hugging Face hub or its folder; fetch it with: hf download {model}"
    )
