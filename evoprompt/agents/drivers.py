"""Drivers of agents: many episodes in lockstep, or a single one in an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from evoprompt.agents.agent import EpisodeSteps, Given, Sample, Sampling, Want
from evoprompt.agents.episode import Action, Broken, Episode, Result
from evoprompt.agents.protocol import ToolCall

CallMany = Callable[[Sequence[ToolCall]], Sequence[Result]]
"""Function that returns the results of calls of many episodes, in order."""


class ToolCaller(Protocol):
    """Caller of tools: functions in this process, or a server."""

    def __call__(self, calls: Sequence[ToolCall], /) -> Sequence[Result]:
        """Return the results of calls of many episodes, in order; an exception ends all of them."""

    async def one(self, call: ToolCall, /) -> Result:
        """Return the result of one call without blocking; an exception ends its episode."""


class Sampler(Protocol):
    """Source of tokens: a model in this process or a server."""

    def __call__(
        self, episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool
    ) -> Sequence[Action | Broken]:
        """Return one action after the context of each episode."""


@dataclass(frozen=True, slots=True)
class Lockstep:
    """Synchronization of the processes of a distributed training.

    All processes have to sample equally often and for the same number of episodes, because weights
    may be sharded over the processes, or the processes may share a server.

    Attributes:
        max_over_ranks: function that returns the largest of the arguments of all processes.
        prompt_ids: prompt that a process with fewer episodes continues; the result is discarded.
        sampling: sampling of the agents.
    """

    max_over_ranks: Callable[[int], int]
    prompt_ids: Sequence[int]
    sampling: Sampling


def play(
    plays: Iterable[EpisodeSteps],
    sampler: Sampler,
    call: CallMany,
    *,
    greedy: bool = False,
    lockstep: Lockstep | None = None,
) -> list[Episode]:
    """Play episodes in parallel, so that sampler and tools get large batches.

    Args:
        plays: from ``Agent.play``, or from any method that yields samples and calls.
        sampler: sampler of the actions.
        call: caller of the tools, such as a ``ToolCaller``.
        greedy: take the most likely tokens, instead of sampling.
        lockstep: for distributed training; all plays must then have the same sampling.
    """
    running = [_Running(play) for play in plays]
    active = [episode for episode in running if episode.request is not None]
    while True:
        while calls := [e.request for e in active if isinstance(e.request, ToolCall)]:
            results = iter(call(calls))
            active = [
                episode
                for episode in active
                if not isinstance(episode.request, ToolCall) or episode.advance(next(results))
            ]
        idle = lockstep.max_over_ranks(len(active)) - len(active) if lockstep else 0
        if not active and not idle:
            return [episode.episode for episode in running]
        active = _sample_actions(active, sampler, greedy=greedy, lockstep=lockstep, idle=idle)


async def play_one(
    play: EpisodeSteps,
    sample: Callable[[Sample], Awaitable[Action | Broken]],
    call: Callable[[ToolCall], Awaitable[Result]],
) -> Episode:
    """Play one episode; an error of ``sample`` or ``call`` is raised.

    Args:
        play: the episode, such as from ``Agent.play``.
        sample: function that samples an action.
        call: function that calls a tool.
    """
    running = _Running(play)
    while (request := running.request) is not None:
        response: Given = await (
            call(request) if isinstance(request, ToolCall) else sample(request)
        )
        running.advance(response)
    return running.episode


class _Running:
    """Episode in progress.

    Attributes:
        request: request that it waits for; None after its end.
        episode: the complete episode, after its end.
    """

    def __init__(self, play: EpisodeSteps) -> None:
        self._play = play
        self.request: Want | None = None
        self.episode: Episode
        self.advance(None)

    def advance(self, response: Given | None) -> bool:
        """Send the response to the request; return whether there is a further request.

        Half a character in the text of a tool is replaced: no tokenizer and no server accepts it.
        """
        if isinstance(response, str):
            response = response.encode("utf-8", "replace").decode()
        try:
            self.request = next(self._play) if response is None else self._play.send(response)
        except StopIteration as ended:
            self.request, self.episode = None, ended.value
        return self.request is not None


def _sample_actions(
    active: Sequence[_Running],
    sampler: Sampler,
    *,
    greedy: bool,
    lockstep: Lockstep | None,
    idle: int,
) -> list[_Running]:
    """Send every active episode its next action; return the episodes that continue."""
    episodes_by_sampling: dict[Sampling, list[Episode]] = {}
    if lockstep:
        episodes_by_sampling[lockstep.sampling] = []
    for running in active:
        assert isinstance(running.request, Sample)
        episodes_by_sampling.setdefault(running.request.sampling, []).append(
            running.request.episode
        )
    actions_by_sampling = {}
    for sampling, episodes in episodes_by_sampling.items():
        fillers = [Episode(list(lockstep.prompt_ids)) for _ in range(idle)] if lockstep else []
        actions = sampler([*episodes, *fillers], sampling, greedy=greedy)
        actions_by_sampling[sampling] = iter(actions)
    return [
        running
        for running in active
        if isinstance(running.request, Sample)
        and running.advance(next(actions_by_sampling[running.request.sampling]))
    ]
