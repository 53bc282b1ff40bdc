"""Outcomes of rollouts: the rewards that the trainer trains on, read where it reads them.

veRL keys a trajectory ``{uid}_{session}_{output}``: the prompt's uid, the rollout's number in its
group, and the number of the output, as an agent loop may leave several. The last output of a
session carries its reward and is the only one that GRPO compares.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from numbers import Real
from statistics import fmean
from typing import TYPE_CHECKING

from evoprompt.agents import turns
from evoprompt.agents.episode import token_metrics
from evoprompt.agents.thoughts import reader_of
from evoprompt.agents.tokenizer import Tokenizer
from evoprompt.config import EngineConfig
from evoprompt.hosting.binding import Outcomes, RolloutOutcome
from evoprompt.log.evaluation import MainMetric
from evoprompt.replay import rollouts_to_keep
from evoprompt.types import Assignment, Turn
from evoprompt_verl.columns import column
from evoprompt_verl.host import HostBatch, HostQueue

if TYPE_CHECKING:
    from tensordict import TensorDict

SCORED = ["rm_scores", "response_mask", "extra_fields"]
"""Fields of every trajectory that are fetched; only sums over their tokens are kept."""

READ = ["responses", "response_mask"]
"""Fields of the trajectories whose text is kept."""

_CORE = "val-core/"

FEEDBACK = "feedback"
"""Key of a reward function's result that holds a text for proposers to read."""

Extra = Mapping[str, object]
"""What a reward function returned beside the score."""

Session = tuple[str, int]
"""A prompt's uid and the number of one of its rollouts."""


def headed(numbers: Mapping[str, float]) -> tuple[dict[str, float], MainMetric | None]:
    """Return the metrics of a validation, and the one that shows how good the policy is.

    veRL has a core value for each data source; of several, their mean is added.

    >>> headed({"val-core/nq/acc/mean@1": 0.5, "val-aux/num_turns/mean": 2.0})[1].label
    'nq/acc/mean@1'
    """
    core = [name for name in numbers if name.startswith(_CORE) and "/mean@" in name]
    if len(core) > 1:
        mean, label = f"{_CORE}mean", "mean over data sources"
        return {**numbers, mean: fmean(numbers[name] for name in core)}, MainMetric(mean, label)
    main_metric = MainMetric(core[0], core[0].removeprefix(_CORE)) if core else None
    return dict(numbers), main_metric


def session_of(key: str) -> tuple[Session, int]:
    """Return the session of a trajectory key, and the number of its output.

    >>> session_of("7f3a_2_0")
    (('7f3a', 2), 0)
    """
    uid, session, output = key.rsplit("_", 2)
    return (uid, int(session)), int(output)


def final_keys(keys: Iterable[str]) -> dict[Session, str]:
    """Return the key of the last output of every session.

    >>> final_keys(["u_0_0", "u_0_1", "u_1_0"])
    {('u', 0): 'u_0_1', ('u', 1): 'u_1_0'}
    """
    last: dict[Session, tuple[int, str]] = {}
    for key in keys:
        session, output = session_of(key)
        if session not in last or last[session][0] < output:
            last[session] = (output, key)
    return {session: key for session, (_, key) in last.items()}


class OutcomeReader:
    """Reads outcomes from the queue.

    Args:
        queue: where the trajectories wait.
        tokenizer: decodes failures.
        config: of the engine: what a failure is, and how many of one candidate are read.
    """

    def __init__(self, queue: HostQueue, tokenizer: Tokenizer, config: EngineConfig) -> None:
        self._queue = queue
        self._decode = reader_of(tokenizer)
        self._config = config

    def read(
        self,
        batch: HostBatch,
        assignments: Mapping[str, Sequence[Assignment]] | None = None,
    ) -> dict[Session, RolloutOutcome]:
        """Return the outcome of every session with a trajectory in ``batch``.

        Args:
            batch: batch of finished groups.
            assignments: those by uid whose rollouts are read; none if not given.
        """
        final = final_keys(batch.keys)
        if not final:
            return {}
        data = self._queue.kv_batch_get(list(final.values()), batch.partition_id, SCORED)
        extras = _extras(data)
        outcomes = dict(zip(final, _outcomes(data, extras), strict=True))
        # In the order of asking: which groups end first is a race between processes.
        scored = {
            session: (assignment.candidate.id, assignment.question.id, rollout, reward)
            for assignment, sessions in sessions_of(assignments or {})
            for rollout, session in enumerate(sessions)
            if session in outcomes and (reward := outcomes[session].reward) is not None
        }
        config = self._config
        chosen = rollouts_to_keep(scored, config.failure_threshold, config.failures_per_request)
        read = {session: key for session, key in final.items() if session in chosen}
        feedback_by_session = {
            session: _feedback(extra) for session, extra in zip(final, extras, strict=True)
        }
        for session, session_turns in self._turns(read, batch.partition_id).items():
            outcomes[session] = replace(
                outcomes[session], turns=session_turns, feedback=feedback_by_session[session]
            )
        return outcomes

    def _turns(
        self, keys: Mapping[Session, str], partition: str
    ) -> dict[Session, tuple[Turn, ...]]:
        if not keys:
            return {}
        data = self._queue.kv_batch_get(list(keys.values()), partition, READ)
        return {
            session: turns(ids.tolist(), mask.tolist(), self._decode)
            for session, ids, mask in zip(
                keys, data["responses"].unbind(0), data["response_mask"].unbind(0), strict=True
            )
        }


def sessions_of(
    assignments: Mapping[str, Sequence[Assignment]],
) -> list[tuple[Assignment, list[Session]]]:
    """Return each assignment with its sessions, which are numbered through for each uid.

    Args:
        assignments: those of each prompt by its uid, in the order of its rollouts.
    """
    pairs = []
    for uid, of_prompt in assignments.items():
        numbers = count()
        for assignment in of_prompt:
            sessions = [(uid, next(numbers)) for _ in range(assignment.rollouts)]
            pairs.append((assignment, sessions))
    return pairs


def of_assignments(
    assignments: Mapping[str, Sequence[Assignment]], outcomes: Mapping[Session, RolloutOutcome]
) -> list[tuple[Assignment, Outcomes]]:
    """Return each assignment with its outcomes.

    A rollout that left nothing in the queue failed.
    """
    return [
        (assignment, [outcomes.get(session) for session in sessions])
        for assignment, sessions in sessions_of(assignments)
    ]


def _outcomes(data: TensorDict, extras: Sequence[Extra]) -> list[RolloutOutcome]:
    rewards = [float(row.sum()) for row in data["rm_scores"].unbind(0)]
    masks = data["response_mask"].unbind(0)
    return [
        RolloutOutcome(reward, {**token_metrics(mask.tolist()), **_numbers(extra)})
        for reward, mask, extra in zip(rewards, masks, extras, strict=True)
    ]


def _extras(data: TensorDict) -> list[Extra]:
    """Return the extra values of the reward function for each trajectory."""
    fields = column(data, "extra_fields") if "extra_fields" in data else [None] * len(data)
    return [_mapping(_mapping(field).get("reward_extra_info")) for field in fields]


def _mapping(value: object) -> Extra:
    return value if isinstance(value, Mapping) else {}


def _numbers(extra: Extra) -> dict[str, float]:
    """Return the numbers, as ``reward/<name>``."""
    numbers = [(name, float(value)) for name, value in extra.items() if isinstance(value, Real)]
    return {f"reward/{name}": value for name, value in numbers if math.isfinite(value)}


def _feedback(extra: Extra) -> str:
    """Return the text for proposers to read."""
    feedback = extra.get(FEEDBACK)
    return feedback if isinstance(feedback, str) else ""
