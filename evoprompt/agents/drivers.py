"""Run agents: many episodes in step, or one among others of an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from evoprompt.agents.agent import EpisodeSteps, Given, Sample, Sampling, Want
from evoprompt.agents.episode import Action, Broken, Episode, Result
from evoprompt.agents.protocol import Call

CallMany = Callable[[Sequence[Call]], Sequence[Result]]
"""Answers calls of many episodes, in order."""


class ToolCaller(Protocol):
    """What answers calls: functions in this process, or a server."""

    def __call__(self, calls: Sequence[Call], /) -> Sequence[Result]:
        """The results of calls of many episodes, in order; an exception ends all of them."""
        ...

    async def one(self, call: Call, /) -> Result:
        """The result of one call, while the event loop goes on; an exception ends its episode."""
        ...


class Sampler(Protocol):
    """Where tokens come from: a model in this process or a server."""

    def __call__(
        self, episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool
    ) -> Sequence[Action | Broken]:
        """One action after the context of each episode."""
        ...


@dataclass(frozen=True, slots=True)
class Lockstep:
    """What keeps the processes of a distributed training in step.

    Each has to sample equally often and for equally many, because weights may be sharded over the
    processes or a server be shared by them.

    Attributes:
        max_over_ranks: the largest of the numbers that all processes call it with.
        prompt_ids: what is continued, unread, for a process that has less to do than another.
        sampling: of the agents.
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
    """Plays episodes side by side, so that sampler and tools see large batches.

    Args:
        plays: from ``Agent.play``, or of any other method that wants samples and calls.
        sampler: writes the actions.
        call: calls the tools, as a ``ToolCaller`` does.
        greedy: take the most likely tokens, instead of drawing them.
        lockstep: for distributed training; all plays must then sample alike.
    """
    running = [_Running(play) for play in plays]
    live = [one for one in running if one.wants is not None]
    while True:
        while calls := [one.wants for one in live if isinstance(one.wants, Call)]:
            results = iter(call(calls))
            live = [
                one for one in live if not isinstance(one.wants, Call) or one.advance(next(results))
            ]
        idle = lockstep.max_over_ranks(len(live)) - len(live) if lockstep else 0
        if not live and not idle:
            return [one.episode for one in running]
        live = _sampled(live, sampler, greedy=greedy, lockstep=lockstep, idle=idle)


async def play_one(
    play: EpisodeSteps,
    sample: Callable[[Sample], Awaitable[Action | Broken]],
    call: Callable[[Call], Awaitable[Result]],
) -> Episode:
    """Plays one episode; an error that ``sample`` or ``call`` raises is passed on.

    Args:
        play: the episode, as of ``Agent.play``.
        sample: writes an action.
        call: calls a tool.
    """
    running = _Running(play)
    while (wants := running.wants) is not None:
        given: Given = await (call(wants) if isinstance(wants, Call) else sample(wants))
        running.advance(given)
    return running.episode


class _Running:
    """An episode on its way.

    Attributes:
        wants: what it waits for, None when it has ended.
        episode: as it ended.
    """

    def __init__(self, play: EpisodeSteps) -> None:
        self._play = play
        self.wants: Want | None = None
        self.episode: Episode
        self.advance(None)

    def advance(self, given: Given | None) -> bool:
        """Hands over what was wanted; whether it wants more."""
        try:
            self.wants = next(self._play) if given is None else self._play.send(given)
        except StopIteration as ended:
            self.wants, self.episode = None, ended.value
        return self.wants is not None


def _sampled(
    live: Sequence[_Running],
    sampler: Sampler,
    *,
    greedy: bool,
    lockstep: Lockstep | None,
    idle: int,
) -> list[_Running]:
    """Gives every live episode its next action; returns those that go on."""
    wanted: dict[Sampling, list[Episode]] = {}
    if lockstep:
        wanted[lockstep.sampling] = []
    for one in live:
        assert isinstance(one.wants, Sample)
        wanted.setdefault(one.wants.sampling, []).append(one.wants.episode)
    given = {}
    for sampling, episodes in wanted.items():
        fillers = [Episode(list(lockstep.prompt_ids)) for _ in range(idle)] if lockstep else []
        actions = sampler([*episodes, *fillers], sampling, greedy=greedy)
        given[sampling] = iter(actions)
    return [
        one
        for one in live
        if isinstance(one.wants, Sample) and one.advance(next(given[one.wants.sampling]))
    ]
