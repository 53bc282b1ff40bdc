"""Causal language model in TRL's ``GRPOTrainer``, with rollouts by a task's tools."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from itertools import chain
from pathlib import Path
from typing import Any, cast

import torch
import transformers
from datasets import Dataset
from evoprompt_trl.collectives import Collectives
from evoprompt_trl.host import SHOWN_TOOLS
from transformers import AutoModelForCausalLM, PrinterCallback
from trl.trainer.grpo_trainer import GRPOTrainer

from evoprompt.agents import (
    CallMany,
    ChatTokenizer,
    Episode,
    EpisodeSteps,
    Limits,
    Lockstep,
    Sampler,
    ToolCaller,
    play,
)
from evoprompt.agents.tasks import (
    EpisodeRunner,
    Evaluation,
    Policy,
    Score,
    Task,
    Trial,
    require_questions,
    scored,
)
from evoprompt.agents.tokenizer import positions_of
from evoprompt.engine import Engine
from evoprompt.experiments.hosts.training import evaluation_of
from evoprompt.experiments.hosts.trl.arguments import adapters, arguments
from evoprompt.experiments.hosts.trl.generation import choices, missing, tokenizer_of
from evoprompt.experiments.hosts.trl.imitation import Row, divergence, imitate, row_of
from evoprompt.experiments.hosts.trl.samplers import TransformersSampler, VllmSampler
from evoprompt.experiments.hosts.trl.schedule import Pace, resumes
from evoprompt.experiments.hosts.trl.scoring import EpisodeScorer
from evoprompt.experiments.hosts.trl.settings import TrlSettings, running_processes
from evoprompt.experiments.hosts.watchdog import Watchdog
from evoprompt.hosting.prompts import Prompt, Render
from evoprompt.support.errors import InputError
from evoprompt.types import Candidate, Question, Written

OnEvaluation = Callable[[Evaluation], None]
_PLAIN = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "do_sample": True}


class TrlTrainingJob(Policy):
    """Language model in a ``GRPOTrainer``, ready to be trained.

    With several processes every method is called in all of them together.

    Args:
        task: its questions are trained on.
        trial: the trial.
        settings: of the host.

    Raises:
        InputError: the settings are wrong, the task has no questions, or the model is missing or
            cannot play the task.
    """

    def __init__(self, task: Task, trial: Trial, settings: TrlSettings) -> None:
        self._task, self._trial, self._settings = task, trial, settings
        running = running_processes()
        if running != settings.processes:
            raise InputError(
                f"host.processes is {settings.processes}, but {running} are running; required: as "
                f"many; start them with accelerate launch --num_processes {settings.processes}, "
                "or change the setting"
            )
        if settings.threads is not None:
            torch.set_num_threads(settings.threads)
        require_questions(task)
        self._model = settings.model_of(trial)
        self._tokenizer = tokenizer_of(self._model)
        self._runner = EpisodeRunner(
            task, self._tokenizer, settings.limits(task), settings.template_variables
        )
        self._callers: dict[str, ToolCaller] = {}
        self._engine: Engine | None = None
        self._pace = Pace(trial, settings.updates_per_step)
        self._trainer = self._build()
        self._together = Collectives(self._trainer.accelerator)
        self._vllm = VllmSampler(self._trainer) if settings.uses_vllm else None
        self._lockstep = self._in_lockstep() if settings.processes > 1 else None

    @property
    def trainer(self) -> GRPOTrainer:
        """Return the trainer, to which the engine is attached."""
        return self._trainer

    @property
    def render(self) -> Render:
        """Return the function that places the instruction in the prompt of a question."""
        return self._task.render

    def train(self, engine: Engine, on_evaluation: OnEvaluation) -> None:
        """Train until ``engine.rollouts`` reaches the budget; see ``TrainingJob``."""
        self._engine = engine
        self._pace.follow(
            engine,
            lambda: on_evaluation(self.evaluate(engine.best.components, "validation")),
            self._together,
        )
        self._trainer.train(resume_from_checkpoint=resumes(self._trial))

    def save(self, folder: Path) -> None:
        """Write weights and tokenizer as ``transformers`` loads them, with adapters merged.

        With several processes the first one names the folder.
        """
        folder = self._together.from_leader(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = folder.with_name(f".{folder.name}.partial")
        if self._settings.lora is None:
            self._trainer.save_model(str(partial))
        elif self._trainer.accelerator.is_main_process:
            whole: Any = deepcopy(self._trainer.accelerator.unwrap_model(self._trainer.model))
            whole.merge_and_unload().save_pretrained(partial)
            self._tokenizer.save_pretrained(partial)
        if self._trainer.accelerator.is_main_process:
            if folder.exists():
                shutil.rmtree(folder)
            partial.rename(folder)
        self._trainer.accelerator.wait_for_everyone()

    def stop(self) -> None:
        """Request that a running ``train`` saves a checkpoint and returns after this step."""
        self._pace.stopping = True

    @property
    def tokenizer(self) -> ChatTokenizer:
        """Return the tokenizer of the policy, with the variables of its chat template."""
        return self._runner.tokenizer

    @property
    def limits(self) -> Limits:
        """Return the limits of an episode."""
        return self._runner.agent.limits

    def answer(self, plays: Sequence[EpisodeSteps], call: CallMany) -> list[Episode]:
        """Return greedy episodes of any method, by the current policy.

        Raises:
            InputError: vLLM samples, which can only end actions as the agent does.
        """
        if self._vllm is not None or self._lockstep is not None:
            raise InputError(
                "the policy is sampled by vLLM or by several processes, which play the agent "
                "alone; required: a served policy; start 'vllm serve' and give --model"
            )
        with self._evaluating():
            return play(plays, self._sampler(), call, greedy=True)

    def evaluate(self, instruction: Written, split: str) -> Evaluation:
        """Evaluate the current policy greedily; draw no random number.

        Return means over the questions without a broken tool and with a prompt that leaves room for
        an episode; ``unscored`` is the share of the remaining questions.

        Raises:
            InputError: no question could be scored.
        """
        accelerator = self._trainer.accelerator
        candidate = Candidate.of(self._together.from_leader(instruction))
        everything, processes = self._task.questions(split), accelerator.num_processes
        shares = [everything[process::processes] for process in range(processes)]
        mine = shares[accelerator.process_index]
        rolled = self.rollouts(mine, split, candidate, greedy=True)
        results = [rollout if isinstance(rollout, str) else rollout[1] for rollout in rolled]
        log_engine = self._engine if accelerator.is_main_process else None
        gathered, questions = self._together.gathered(results), list(chain.from_iterable(shares))
        return evaluation_of(questions, gathered, split, self._task.main_metric, log_engine)

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        model = self._trainer.model
        assert model is not None
        training = model.training
        model.eval()
        try:
            yield
        finally:
            model.train(training)

    def rollouts(
        self, questions: Sequence[Question], split: str, candidate: Candidate, *, greedy: bool
    ) -> list[tuple[Episode, Score] | str]:
        """Return an episode of each question with its score, or the reason why it has none."""
        rolled: list[tuple[Episode, Score] | str] = []
        settings = self._settings
        size = max(settings.at_once, settings.rollouts_per_step // settings.processes)
        room = self._room()
        if self._vllm is not None:
            self._vllm.load_weights()
        for start in range(0, self._max_over_ranks(len(questions)), size):
            chunk = questions[start : start + size]
            prompts = [self.render(self._runner.prompt(question), candidate) for question in chunk]
            lengths = [len(self._runner.encode(prompt)) for prompt in prompts]
            fitting = [
                prompt for prompt, length in zip(prompts, lengths, strict=True) if length <= room
            ]
            with self._evaluating():
                episodes = iter(self._play(fitting, split, greedy=greedy))
            for question, length in zip(chunk, lengths, strict=True):
                if length > room:
                    rolled.append(f"a prompt of {length} tokens, of at most {room}")
                    continue
                episode = next(episodes)
                score = scored(self._task, episode, question)
                rolled.append(episode.error if score is None else (episode, score))
        return rolled

    def rows(self, episodes: Sequence[tuple[Question, Episode]], candidate: Candidate) -> list[Row]:
        """Return the actions of ``episodes`` as training rows after prompts with ``candidate``."""
        prompts = [
            self.render(self._runner.prompt(question), candidate) for question, _ in episodes
        ]
        return [
            row_of(self._runner.encode(prompt), episode)
            for prompt, (_, episode) in zip(prompts, episodes, strict=True)
        ]

    def imitate(self, rows: Sequence[Row]) -> None:
        """Take supervised steps on ``rows``."""
        imitate(self._trainer, rows)
        self._trainer._last_loaded_step = -1  # so that vLLM takes the new weights

    def divergence(self, rows: Sequence[Row]) -> float:
        """Return the mean KL divergence from the task's model over the policy's tokens, in nats."""
        policy: Any = self._trainer.model
        base = AutoModelForCausalLM.from_pretrained(self._settings.model, dtype=policy.dtype)
        with self._evaluating():
            size = self._settings.rollouts_per_pass
            return divergence(policy, base.to(policy.device), rows, size)

    def _room(self) -> int:
        """Return the most tokens of a prompt that leave room for the longest episode."""
        model: Any = self._trainer.model
        positions = positions_of(model.config.get_text_config())
        allowed = self._settings.prompt_tokens
        longest = self._runner.agent.limits.response_tokens
        return min(allowed, positions - longest) if positions else allowed

    def _build(self) -> GRPOTrainer:
        questions = self._task.questions("train")
        agent = self._runner.agent
        transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="You are using 'rollout_func'")
            try:
                trainer = _Trainer(
                    model=self._model,
                    reward_funcs=EpisodeScorer(self._task, questions),
                    args=arguments(self._settings, agent.limits, agent.sampling, self._trial),
                    train_dataset=Dataset.from_list(self._rows(questions)),
                    processing_class=self._tokenizer,
                    rollout_func=self._rollout,
                    callbacks=[self._pace],
                    peft_config=adapters(self._settings.lora),
                )
            except OSError as error:
                raise missing(self._model, error) from error
        setattr(trainer, SHOWN_TOOLS, self._runner.schemas)
        model: Any = trainer.model
        args: Any = trainer.args
        planned: int | None = args.vllm_max_model_length
        positions = positions_of(model.config.get_text_config())
        if planned and positions and "vllm_max_model_length" not in self._settings.arguments:
            # The plan knows the prompts alone; a number that a user states would win.
            args.vllm_max_model_length = min(planned, positions)
        head = model.get_output_embeddings()
        if head is not None:
            head.register_forward_pre_hook(_copy_states)
        generation_config = getattr(model, "generation_config", None)
        # It is saved with the policy, so that a server samples as the training does.
        if generation_config is not None:
            generation_config.update(**choices(trainer))
        # The run has its own display; TRL's lines would tear it.
        trainer.remove_callback(PrinterCallback)
        return trainer

    def _rows(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        """Return TRL's dataset; ``question_index`` refers to the question.

        The question's own row may have columns of any name, so it is not part of the dataset.
        """
        return [
            {
                "id": question.id,
                "prompt": self._runner.prompt(question),
                "question": question.text,
                "answers": list(question.answers),
                "question_index": index,
            }
            for index, question in enumerate(questions)
        ]

    def _rollout(self, prompts: Sequence[Prompt], trainer: GRPOTrainer) -> dict[str, Any]:
        """Return TRL's training fields and the episodes, in place of TRL's own sampling."""
        del trainer
        episodes = self._play(prompts, "train", greedy=False)
        for episode in episodes:
            if not episode.completion_ids:  # it broke before its first token, and TRL needs one
                episode.show([self._tokenizer.eos_token_id], "")
        has_logprobs = self._settings.uses_vllm
        return {
            "prompt_ids": [episode.prompt_ids for episode in episodes],
            "completion_ids": [episode.completion_ids for episode in episodes],
            "logprobs": [episode.logprobs for episode in episodes] if has_logprobs else None,
            "env_mask": [episode.policy_mask for episode in episodes],
            "episode": episodes,
        }

    def _play(self, prompts: Sequence[Prompt], split: str, *, greedy: bool) -> list[Episode]:
        if split not in self._callers:
            self._callers[split] = self._task.caller(split)
        unfinished = set(range(len(prompts)))

        def play_and_mark(number: int, steps: EpisodeSteps) -> EpisodeSteps:
            episode = yield from steps
            unfinished.remove(number)
            return episode

        plays = [play_and_mark(n, self._runner.play(prompt)) for n, prompt in enumerate(prompts)]
        dog = Watchdog(lambda: len(unfinished), len(prompts), self._engine, "rollouts")
        with dog.watching():
            return play(
                plays, self._sampler(), self._callers[split], greedy=greedy, lockstep=self._lockstep
            )

    def _sampler(self) -> Sampler:
        """Return the sampler of the actions of one play."""
        if self._vllm is not None:
            return self._vllm
        model = self._trainer.accelerator.unwrap_model(self._trainer.model)
        chosen = choices(self._trainer)
        # The task's sampler takes no other settings.
        if chosen == {**_PLAIN, "temperature": chosen["temperature"]}:
            task_sampler = self._task.sampler(model, self._tokenizer, self._trainer.temperature)
            if task_sampler is not None:
                return task_sampler
        return TransformersSampler(self._trainer, self._tokenizer, self._settings.at_once)

    def _in_lockstep(self) -> Lockstep:
        end = [self._tokenizer.eos_token_id]
        return Lockstep(self._max_over_ranks, end, self._runner.agent.sampling)

    def _max_over_ranks(self, count: int) -> int:
        accelerator = self._trainer.accelerator
        counts = accelerator.gather(torch.tensor([count], device=accelerator.device))
        return int(counts.max())


class _Trainer(GRPOTrainer):
    """Trainer whose passes leave out rollouts without an advantage."""

    def compute_loss(
        self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **named: Any
    ) -> torch.Tensor:
        """Return TRL's loss; the pass is over the rollouts with an advantage, if there is any.

        A rollout without one adds 0 to the gradient if there is no KL term, and TRL shuffles the
        rollouts of all passes. Metrics such as the entropy are of the rollouts of the pass.
        """
        other = ("beta", "entropy_coef", "use_adaptive_entropy", "aux_loss_enabled")
        terms = [getattr(self, name, None) for name in other]  # not all in an older TRL
        alone = self.accelerator.num_processes == 1
        advantages = inputs["advantages"]
        if not model.training or not alone or any(terms) or advantages.dim() > 1:
            return cast(torch.Tensor, super().compute_loss(model, inputs, *args, **named))
        rows = advantages.nonzero().flatten()
        if not len(rows):
            learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
            return torch.stack([parameter.sum() for parameter in learning]).sum() * 0.0
        share = 1.0
        if self.loss_type in _SEPARABLE and self.top_entropy_quantile == 1.0:
            inputs = _select_rollouts(inputs, rows)
            share = 1.0 if self.loss_type == "dapo" else len(rows) / len(advantages)
        return cast(torch.Tensor, super().compute_loss(model, inputs, *args, **named) * share)


_SEPARABLE = ("grpo", "dr_grpo", "dapo")
"""Types of loss in which a rollout adds the same beside any other: means over the rollouts of a
pass, and a sum over their tokens (DAPO)."""


def _select_rollouts(inputs: Mapping[str, Any], rows: torch.Tensor) -> dict[str, Any]:
    """Return the inputs of some rollouts, without columns that are padding in all of them.

    Args:
        inputs: of a pass over texts, as TRL computes them.
        rows: indices of the rollouts.
    """
    count, width = inputs["completion_ids"].shape
    selected = {
        name: value[rows] if torch.is_tensor(value) and value.shape[:1] == (count,) else value
        for name, value in inputs.items()
    }
    start = int(selected["prompt_mask"].any(0).int().argmax())
    end = width - int(selected["completion_mask"].any(0).flip(0).int().argmax())
    for name, value in selected.items():
        if name in ("prompt_ids", "prompt_mask"):
            selected[name] = value[:, start:]
        elif torch.is_tensor(value) and value.shape[1:] == (width,):
            selected[name] = value[:, :end]
    return selected


def _copy_states(_head: torch.nn.Module, states: tuple[torch.Tensor, ...]) -> Any:
    """Return the last states of a batch, copied: transformers passes on a view of all states.

    Torch multiplies a view row by row. On one core (AVX-512 BF16, torch 2.13, bfloat16, 10 rows,
    151,936 tokens) the first token of an action took 16 s with a view, and .04 s with a copy; the
    last 65 of a training pass 17.5 s, and 2.9 s.
    """
    return tuple(state.contiguous() for state in states)
