"""Which instruction each conversation has: conversations by key, in groups, kept on the disk.

A group is one visit to a question, and its conversations are its rollouts. Everything that happens
is a line of a journal before it counts; each step ends with a checkpoint that begins a new journal.
Whoever reads the newest whole checkpoint and repeats its journal knows what was known, as the
engine decides the same from the same.
"""

from __future__ import annotations

import errno
import os
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, TypeAdapter

from evoprompt.engine import Engine
from evoprompt.gateway.settings import GatewaySettings
from evoprompt.hosting.attachment import keep_log
from evoprompt.hosting.binding import Binding, Outcomes, RolloutOutcome
from evoprompt.log.turns import clip
from evoprompt.support.errors import EvopromptError, InputError, StateError
from evoprompt.support.storage import LineFile, checkpoints, mend, remove
from evoprompt.support.text import format_error
from evoprompt.types import Assignment, Candidate, Question, Turn

CHECKPOINT = "checkpoint-"
JOURNAL = "conversations.jsonl"

_FREE_BYTES = 2**16  # of a disk that takes a line; a checkpoint that fits no more harms nothing
_LONGEST = 1600  # characters of a text that is kept: a writer reads 3,200 of a whole episode
_TURNS = 8  # of a conversation that are kept, the last ones
_QUESTION = TypeAdapter(Question)

What = Literal["opened", "called", "answered", "ended"]


def _kept(text: str) -> str:
    """As much of a text as is kept, in whole characters."""
    return clip(text, _LONGEST).encode(errors="replace").decode()


Kept = Annotated[str, AfterValidator(_kept)]
Number = Annotated[float, Field(ge=-1e100, le=1e100)]  # as the engine takes them


class UnknownConversationError(EvopromptError, LookupError):
    """No conversation with this key is open: nobody opened it, or it is over."""

    status = 404


class FullDiskError(EvopromptError, OSError):
    """The folder takes no more lines, so nothing can be counted."""

    status = 503


class StoppedError(EvopromptError, RuntimeError):
    """Something failed while it was counted; the gateway is to be started again."""

    status = 503


class _Conversation(BaseModel):
    """One rollout.

    Attributes:
        group: it belongs to.
        upstream: base URL of its own; empty for that of the settings.
        turns: what was said and answered.
        asked: what its last request was, in a few characters.
        broken: why its last answer did not come whole, or that none came; else empty.
        outcome: what became of it; None while it is open.
    """

    group: str
    upstream: str = ""
    turns: list[tuple[str, str]] = []
    asked: str = ""
    broken: str = "the model never answered"
    outcome: RolloutOutcome | None = None


class _Group(BaseModel):
    """One visit to a question.

    Attributes:
        question: that is asked.
        keys: of its conversations, in the order they were opened.
        assignments: the instructions it has; none before the first call.
        over: whether it waits to be told.
    """

    question: Question
    keys: list[str] = []
    assignments: list[Assignment] = []
    over: bool = False


class _State(BaseModel):
    """What a checkpoint holds beside the engine."""

    rollouts: int
    conversations: dict[str, _Conversation] = {}
    groups: dict[str, _Group] = {}


class _Event(BaseModel, extra="forbid", allow_inf_nan=False):
    """A line of the journal."""

    what: What
    group: str = ""
    key: str = ""
    question: Question | None = None
    upstream: str = Field("", pattern=r"^(https?://.+)?$")
    asked: str = ""
    seen: Kept = ""
    said: Kept = ""
    broken: Kept = ""
    reward: Number | None = None
    metrics: dict[str, Number] = {}


class Conversations:
    """All conversations that an engine's candidates have; several threads may use it.

    Args:
        engine: gives candidates and is told rewards.
        settings: where it is kept, and what makes a step.
        clock: seconds that only go forward.

    Raises:
        InputError: the engine needs rollouts of its own to verify, draws once a step, or cannot
            share out so many; or the folder is of something else.
        StateError: what the folder holds is damaged, or of other settings.
    """

    def __init__(
        self,
        engine: Engine,
        settings: GatewaySettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.engine = engine
        self.settings = settings
        self._clock = clock
        self._lock = threading.RLock()
        self._evolved = threading.Condition(self._lock)
        self._is_evolving = False  # outside the lock, while requests of known groups go on
        self._is_due = False  # for the thread that ended the step
        self._is_unwritable = False
        self._fault = ""
        self._state = _State(rollouts=settings.rollouts)
        self._heard: dict[str, float] = {}
        self._busy: Counter[str] = Counter()
        self._binding = Binding(engine, self, resume="auto")
        try:
            self._each = engine.divide_rollouts(settings.rollouts, "rollouts")
            _require_served(engine)
            folder_lock = keep_log(settings.directory, engine, self)
            self._binding.until_detach(folder_lock.release)
            self._begin()
        except BaseException:
            self._binding.detach()
            raise
        self._binding.announce()

    def conversation(
        self, question: Question, group: str = "", key: str = "", upstream: str = ""
    ) -> str:
        """Opens a conversation; its agent takes the key that is returned as its API key.

        Args:
            question: that is asked; equal for all conversations of a group.
            group: name of this visit to the question; if not given, the first one of this question
                that has room, else another one.
            key: a random one if not given. To open the same again changes nothing but ``upstream``.
            upstream: base URL of its own, as of a trainer that notes what is sampled for each
                rollout; what the agent shows as its API key goes there. Else that of the settings.

        Raises:
            InputError: group or key is another question's, or the group is full or over.
            ValueError: the question is not text and a row of JSON values, or upstream is no URL.
        """
        question = _QUESTION.validate_json(_QUESTION.dump_json(question))  # as it is read again
        with self._working():
            known = self._state.conversations.get(key)
            if not group:
                group = known.group if known else self._group_with_room(question)
            of = self._state.groups.get(group)
            taken = known is not None and known.group != group
            full = of is not None and (of.over or len(of.keys) >= self.settings.rollouts)
            if taken or (of and of.question != question) or (full and known is None):
                raise InputError(
                    f"a conversation of question {question.id!r} cannot be opened in group "
                    f"{group!r}: the key or the group is of another question, or the group has "
                    f"its {self.settings.rollouts} conversations or is over; required: a key for "
                    "each conversation and a group for each visit to a question"
                )
            key = key or f"evo-{secrets.token_urlsafe(24)}"
            if known is None or known.upstream != upstream:
                self._happens("opened", group=group, key=key, question=question, upstream=upstream)
            return key

    def _group_with_room(self, question: Question) -> str:
        for name, group in self._state.groups.items():
            room = len(group.keys) < self.settings.rollouts and not group.over
            if room and group.question == question:
                return name
        return f"{question.id}-{secrets.token_hex(4)}"

    def upstream(self, key: str) -> str:
        """The base URL of a conversation's own; empty where it has none.

        Raises:
            UnknownConversationError: it is not open.
        """
        with self._working():
            return self._open(key).upstream

    @contextmanager
    def calling(self, key: str) -> Iterator[Candidate]:
        """Under whom a conversation asks; its group is not over while inside.

        Raises:
            UnknownConversationError: it is not open.
        """
        with self._working():
            name = self._open(key).group
            if not self._state.groups[name].assignments:
                self._evolved.wait_for(lambda: not self._is_evolving)
                name = self._open(key).group  # its state may be another one by now
            group = self._state.groups[name]
            self._require_space()
            if not group.assignments:
                self._happens("called", group=name)
            self._busy[name] += 1
            candidate = group.assignments[group.keys.index(key) // self._each].candidate
        try:
            yield candidate
        finally:
            with self._lock:
                self._busy[name] -= 1
                if not self._busy[name]:
                    del self._busy[name]
                if name in self._state.groups:
                    self._heard[name] = self._clock()

    def must_wait(self, key: str) -> bool:
        """Return whether the next request of a conversation waits for the engine to evolve.

        Raises:
            UnknownConversationError: it is not open.
        """
        with self._working():
            return self._is_evolving and not self._state.groups[self._open(key).group].assignments

    def answered(self, key: str, seen: str, said: str, broken: str = "", asked: str = "") -> None:
        """Counts an answer; nothing happens if the conversation is over meanwhile.

        Args:
            key: of the conversation.
            seen: what followed the answer before.
            said: the answer.
            broken: why it did not come, or not whole, through no fault of the agent; else empty.
            asked: the request; where the last one comes again, the answer takes that one's place.
        """
        with self._working():
            one = self._state.conversations.get(key)
            if one is not None and one.outcome is None:
                digest = blake2b(asked.encode(), digest_size=8).hexdigest() if asked else ""
                self._happens(
                    "answered", key=key, seen=seen, said=said, broken=broken, asked=digest
                )

    def reward(
        self,
        key: str,
        reward: float | None,
        feedback: str = "",
        metrics: Mapping[str, float] | None = None,
    ) -> str:
        """Ends a conversation with its reward.

        Args:
            key: of the conversation.
            reward: None for a rollout that failed.
            feedback: what is said of it in words, for the writer of instructions.
            metrics: further numbers.

        Returns:
            Why it is counted as one that failed, where the model never answered or its last answer
            did not come whole; else an empty text.

        Raises:
            ValueError: a number is NaN, infinite or beyond 1e100.
            UnknownConversationError: it is not open.
        """
        with self._working():
            why = self._open(key).broken
            given = {"metrics": metrics or {}, "said": feedback}
            self._happens("ended", key=key, reward=reward, broken=why, **given)
        self._evolve()
        return why

    def expire(self) -> None:
        """Ends the groups that have given no sign for too long."""
        with self._working():
            before = self._clock() - self.settings.timeout
            for name, group in list(self._state.groups.items()):
                silent = self._heard.get(name, before + 1) <= before and not self._busy[name]
                if silent and not group.over:
                    self._happens("ended", group=name)
        self._evolve()

    def close(self) -> None:
        """Saves everything and frees engine and folder. Again, it does nothing."""
        with self._lock:
            self._evolved.wait_for(lambda: not self._is_evolving)
            if self._binding.attached:
                if not self._fault:
                    self._save()
                    self._binding.conclude()
                self._binding.detach()

    # ------------------------------------------------------------------------------ what happens

    @contextmanager
    def _working(self) -> Iterator[None]:
        with self._lock:
            if self._fault:
                raise StoppedError(
                    f"the gateway has stopped ({self._fault}); required: another one with the "
                    f"directory {self.settings.directory}; nothing that was counted is lost"
                )
            yield

    def _happens(self, what: What, **given: Any) -> None:
        """Writes down what happens, and then lets it happen; stops if that fails halfway."""
        line = _Event(what=what, **given).model_dump_json(exclude_defaults=True).encode()
        event = _Event.model_validate_json(line)  # as the next gateway reads it, or not at all
        try:
            self._journal.append(line + b"\n")
        except OSError as error:
            self._is_unwritable = True
            raise self._full_disk(error) from error
        try:
            self._apply(event)
        except BaseException as error:
            self._fault = format_error(error)
            raise

    def _require_space(self) -> None:
        """Make sure that the answer of a request can be written down.

        Raises:
            FullDiskError: it cannot.
        """
        try:
            disk = os.statvfs(self.settings.directory)
            if disk.f_bavail * disk.f_frsize < _FREE_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self._is_unwritable:  # another limit may be the reason, such as a quota
                probe = self.settings.directory / "probe"
                probe.write_bytes(bytes(2**12))
                probe.unlink()
                self._is_unwritable = False
        except OSError as error:
            raise self._full_disk(error) from error

    def _full_disk(self, error: OSError) -> FullDiskError:
        return FullDiskError(
            f"the directory {self.settings.directory} cannot be written ({format_error(error)}); "
            "required: room on its disk; the same request can be sent again then"
        )

    def _apply(self, event: _Event) -> None:
        conversations, groups = self._state.conversations, self._state.groups
        name = event.group or conversations[event.key].group
        self._heard[name] = self._clock()
        if event.what == "opened" and event.question is not None:
            group = groups.setdefault(name, _Group(question=event.question))
            group.keys = [*dict.fromkeys([*group.keys, event.key])]  # it may come again
            one = conversations.setdefault(event.key, _Conversation(group=name))
            one.upstream = event.upstream
            return
        group = groups[name]
        if event.what == "called":
            group.assignments = self.engine.ask(
                [group.question], self._each, step_of=self.settings.groups
            )
        elif event.what == "answered":
            one = conversations[event.key]
            if event.asked and event.asked == one.asked and not one.broken:
                one.turns.pop()  # its answer was lost on the way
            if one.turns:
                one.turns[-1] = (one.turns[-1][0], event.seen)
            if not event.broken:
                one.turns = [*one.turns, (event.said, "")][-_TURNS:]
            one.broken, one.asked = event.broken, event.asked
        else:
            if event.key:
                one = conversations[event.key]
                turns = tuple(Turn(*turn) for turn in one.turns)
                reward = None if event.broken else event.reward
                one.outcome = RolloutOutcome(reward, event.metrics, turns, event.said)
            full = len(group.keys) == self.settings.rollouts
            group.over = not event.key or (
                full and all(conversations[k].outcome for k in group.keys)
            )
        if group.over:
            self._step()

    def _step(self) -> None:
        """Tell the engine of the groups that are over, if there are enough of them.

        It evolves afterwards, in :meth:`_evolve`. Until then no other step ends.
        """
        if self._is_evolving:
            return
        over = {name: group for name, group in self._state.groups.items() if group.over}
        called = [group for group in over.values() if group.assignments]
        is_complete = len(called) >= self.settings.groups
        if is_complete:
            pending, outcomes = self.engine.assignments.pending, list[tuple[Assignment, Outcomes]]()
            for group in called:
                own = [self._state.conversations[key].outcome for key in group.keys]
                for place, assignment in enumerate(group.assignments):
                    if assignment.id in pending:  # else forgotten after 100 steps
                        of_it = own[place * self._each : (place + 1) * self._each]
                        outcomes.append((assignment, of_it))
            self._binding.end(outcomes)
        for name, group in over.items():
            if is_complete or not group.assignments:
                for key in group.keys:
                    del self._state.conversations[key]
                del self._state.groups[name], self._heard[name]
        self._is_evolving = self._is_due = is_complete

    def _evolve(self) -> None:
        """Evolve if a step has ended, while requests of groups that have candidates go on.

        What needs the engine waits. So the engine decides in the order of the journal, whenever
        the lines between come.
        """
        with self._lock:
            is_due, self._is_due = self._is_due, False
        while is_due:
            try:
                self._binding.begin((), self._each, _no_rollouts)  # evolves if that is due
                with self._lock:
                    self._save()
                    self._is_evolving = False
                    self._step()  # groups that were over meanwhile
                    is_due, self._is_due = self._is_due, False
                    self._evolved.notify_all()
            except BaseException as error:
                with self._lock:
                    self._fault, self._is_evolving = format_error(error), False
                    self._evolved.notify_all()
                raise

    def _open(self, key: str) -> _Conversation:
        one = self._state.conversations.get(key)
        if one is None or one.outcome is not None or self._state.groups[one.group].over:
            raise UnknownConversationError(
                "no open conversation has this key: nobody opened it, it has its reward, or was "
                "silent for too long; required: one that POST /conversations has opened"
            )
        return one

    # ------------------------------------------------------------------------------- on the disk

    def _begin(self) -> None:
        """Goes on from the newest whole checkpoint and its journal, or begins anew."""
        whole = mend(self.settings.directory, CHECKPOINT)
        host = self._binding.load(whole[-1] if whole else None)
        if not whole:
            self._save()
            return
        try:
            state = _State.model_validate(host)
            if state.rollouts != self.settings.rollouts:
                raise ValueError(f"it was begun with {state.rollouts} rollouts")
            self._state = state
            self._heard = dict.fromkeys(state.groups, self._clock())
            self._journal = LineFile(whole[-1] / JOURNAL)
            lines = list(self._journal)
            self._step()  # groups that were over while the engine evolved
            is_behind = self._evolve_again()
            for line in lines:
                self._apply(_Event.model_validate_json(line))
                is_behind |= self._evolve_again()
            if is_behind:
                self._save()
        except (ValueError, LookupError) as error:
            raise StateError(
                f"{whole[-1]} cannot be continued ({format_error(error)}); required: what a "
                "gateway with the same settings wrote; name another directory to begin anew"
            ) from error

    def _evolve_again(self) -> bool:
        """Evolve as in :meth:`_evolve`, before any checkpoint; return whether that was due."""
        was_due = self._is_due
        while self._is_due:
            self._binding.begin((), self._each, _no_rollouts)
            self._is_evolving = self._is_due = False
            self._step()
        return was_due

    def _save(self) -> None:
        """Writes a checkpoint, which begins a journal; the one before is removed."""
        before = checkpoints(self.settings.directory, CHECKPOINT)
        last = int(before[-1].name.removeprefix(CHECKPOINT)) if before else -1
        folder = self.settings.directory / f"{CHECKPOINT}{last + 1}"
        with self._binding.save(folder, host=self._state.model_dump(mode="json")):
            self._journal = LineFile(folder / JOURNAL)
        for one in before:
            remove(one)


def _require_served(engine: Engine) -> None:
    """Makes sure that the engine needs nothing but the conversations that there are."""
    config = engine.config
    extra = not engine.is_static and engine.generations.most_rollouts(1)
    if extra:
        raise InputError(
            f"accept is {config.accept!r}: candidates would be verified by extra rollouts, which "
            "no client of a gateway makes; required: accept 'in-training' or 'all'"
        )


def _no_rollouts(assignments: Sequence[Assignment]) -> Sequence[Outcomes]:
    raise AssertionError(f"asked to verify {len(assignments)} assignments; it was said not to be")
