"""A binding of an engine to an RL training of tinker-cookbook, which one configuration describes.

The cookbook has no trainer object: ``rl.train.main(config)`` makes everything. So the two fields of
the configuration that decide the questions are replaced, in place, until ``detach``:

- ``dataset_builder``: builds the same datasets, with builders that place instructions in prompts;
- ``rollout_error_tolerance``: the same strategy, which is also the place that is handed the policy
  of the moment, before a group is rolled out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import Any

from tinker_cookbook.rl.rollouts import get_rollout_executor
from tinker_cookbook.rl.types import RLDataset
from tinker_cookbook.tokenizer_utils import get_tokenizer

from evoprompt.hosting.attachment import AttachRequest
from evoprompt.hosting.binding import Binding
from evoprompt.hosting.prompts import Render
from evoprompt.log.evaluation import REWARD
from evoprompt.support.errors import AttachError, InputError
from evoprompt_tinker.batch import Batch
from evoprompt_tinker.checkpoint import CookbookCheckpoint
from evoprompt_tinker.groups import Setup, TestGroup, TrainingGroup, Watching
from evoprompt_tinker.host import REPLACED, HostConfig, HostDataset, HostTokenizer
from evoprompt_tinker.prompts import limits
from evoprompt_tinker.verification import CookbookVerification

_CHZ = "X_"  # before a field's name: chz keeps the given value there; the name itself is a cache


class TinkerAttachment(Binding):
    """Binding of an engine to the configuration of a training.

    Args:
        config: an ``rl.train.Config``.
        request: the engine, and how to bind it.

    Raises:
        AttachError: an engine is attached already, or the engine to another training.
        InputError: the engine's proposer cannot work.
    """

    def __init__(self, config: HostConfig, request: AttachRequest) -> None:
        request.engine.check(request.probe)
        before = dict(vars(config))
        super().__init__(request.engine, config, resume=request.resume)
        self.until_detach(partial(vars(config).update, before))
        self.until_detach(vars(config).clear)
        replacing = (
            _Datasets(config, config.dataset_builder, self, request.render),
            Watching(config.effective_rollout_strategy()),
        )
        for name, value in zip(REPLACED, replacing, strict=True):
            vars(config)[_CHZ + name] = value  # a chz object refuses the ordinary way
            vars(config).pop(name, None)
        self.log_plan()


class _Datasets:
    """Builds the datasets of a training, under instructions.

    Args:
        config: of the training.
        inner: builds the datasets.
        binding: its engine decides on instructions.
        render: places them.
    """

    def __init__(self, config: HostConfig, inner: Any, binding: Binding, render: Render) -> None:
        self._config = config
        self._inner = inner
        self._binding = binding
        self._render = render

    def to_dict(self) -> dict[str, str]:
        """Return the entry of ``config.json`` that the cookbook writes."""
        return {"evoprompt": "attached", "dataset_builder": repr(self._inner)}

    def __deepcopy__(self, memo: dict[int, object]) -> _Datasets:
        """Itself: the cookbook copies its configuration to write it down."""
        return self

    async def __call__(self) -> tuple[RLDataset, RLDataset | None]:
        """Return the training dataset, and the test dataset or None.

        Raises:
            AttachError: rollouts are made in other processes.
        """
        if get_rollout_executor() is not None:
            raise AttachError(
                "rollouts are sent to a rollout_executor, where a group has no access to the "
                "engine for its instruction and rewards; required: rollouts in this process; call "
                "train.main without rollout_executor"
            )
        dataset, test = await self._inner()
        training = Training(self._config, dataset, self._binding, self._render)
        return training, None if test is None else Test(test, training.setup)


class Training(RLDataset):  # type: ignore[misc]
    """Training dataset, in which every batch begins a step of the engine.

    Args:
        config: configuration of the training.
        inner: the dataset.
        binding: binding of the engine, which continues from the last checkpoint.
        render: places the instruction in a prompt.
    """

    def __init__(
        self, config: HostConfig, inner: HostDataset, binding: Binding, render: Render
    ) -> None:
        tokenizer: HostTokenizer = get_tokenizer(config.model_name)
        strategy = config.effective_rollout_strategy()
        self.setup = Setup(binding, render, tokenizer, strategy, config.effective_termination())
        binding.engine.limits = limits(tokenizer, binding.engine)
        self._checkpoint = CookbookCheckpoint(config, binding)
        self._step = self._checkpoint.resume()
        whole = len(inner) * config.num_epochs
        self._end = whole if config.max_steps is None else min(whole, config.max_steps)
        self._inner = inner
        self._verification = CookbookVerification(self.setup, inner)
        self._batch: Batch | None = None
        self._failure: BaseException | None = None
        self._has_warned_of_mixed = False

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        return len(self._inner)

    def get_batch(self, index: int) -> Sequence[TrainingGroup]:
        """Return the builders of a batch, with candidates of the engine.

        Raises:
            InputError: groups of the previous batch are not finished.
            EvopromptError: the error of the previous batch, if a strategy ignored it.
        """
        if self._failure is not None:
            raise self._failure
        if self._batch is not None and self._batch.unfinished:
            raise InputError(
                f"batch {index} was requested while {self._batch.unfinished} groups of the "
                "previous batch are unfinished; required: one batch after the other, each of whole "
                "groups; with stream_minibatch_config, groups_per_batch must equal that of the "
                "dataset"
            )
        builders = self._inner.get_batch(index)
        self._verification.remember(index, builders)
        self._batch = Batch(index, builders, self.setup, self._verification, self)
        return self._batch.groups

    def warn_of_mixed_group(self, number: int) -> None:
        """Warn, once a training, that the environments of a group ask different questions."""
        if not self._has_warned_of_mixed:
            self._has_warned_of_mixed = True
            self.setup.binding.notice(
                f"the environments of group {number} ask different questions, so that rewards of "
                "different questions are compared, for the policy and for the instruction; "
                "required: one question a group; draw the problem once, outside of the thunk"
            )

    def record_failure(self, error: BaseException) -> None:
        """Record the error of a batch, which ends the training."""
        self._failure = error

    def complete_step(self) -> None:
        """Complete a step, before the cookbook trains on the batch."""
        self._step += 1
        self._checkpoint.save(self._step, self._end)
        if self._step == self._end:
            self.setup.binding.report_end()


class Test(RLDataset):  # type: ignore[misc]
    """Test dataset, with the current best candidate.

    Args:
        inner: the dataset.
        setup: setup of the training, whose engine logs the rewards.
    """

    def __init__(self, inner: HostDataset, setup: Setup) -> None:
        self._inner = inner
        self._setup = setup
        self._made = self._ended = 0
        self._rewards: list[float] = []

    def __len__(self) -> int:
        """Return the number of batches of the data set."""
        return len(self._inner)

    def get_batch(self, index: int) -> Sequence[TestGroup]:
        """Return the builders of a batch."""
        builders = self._inner.get_batch(index)
        self._made += len(builders)
        return [TestGroup(builder, self._setup, self.record_group_end) for builder in builders]

    def record_group_end(self, rewards: Sequence[float]) -> None:
        """Record a finished group; the last one ends the evaluation."""
        self._rewards += rewards
        self._ended += 1
        if self._ended == self._made:
            scored, self._rewards, self._ended = self._rewards, [], 0
            measured = {"reward": fmean(scored)} if scored else {}
            self._setup.binding.evaluated(measured, REWARD)
