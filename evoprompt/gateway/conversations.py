"""Conversations of a gateway, by key and in groups, with their instructions; stored on the disk.

A group is one visit to a question, and its conversations are its rollouts. Every event is written
to a journal before it takes effect; each step ends with a checkpoint that begins a new journal.
The newest whole checkpoint and a replay of its journal restore the state, because the engine is
deterministic.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, JsonValue, TypeAdapter, ValidationError

from evoprompt.engine import Engine
from evoprompt.gateway.settings import GatewaySettings
from evoprompt.hosting.attachment import keep_log
from evoprompt.hosting.binding import Binding, Outcomes, RolloutOutcome
from evoprompt.log.turns import clip
from evoprompt.support.errors import EvopromptError, InputError, StateError, warn
from evoprompt.support.storage import LineFile, checkpoints, mend, remove
from evoprompt.support.text import format_error
from evoprompt.support.validation import explain
from evoprompt.types import Assignment, Candidate, Question, Turn

CHECKPOINT = "checkpoint-"
JOURNAL = "conversations.jsonl"

_KEY = re.compile(r"[!-~]{0,512}")
_MAX_WAIT_SECONDS = 2.0  # of a reward, for a request under way
_MIN_FREE_BYTES = 2**16  # for a line; a checkpoint that does not fit does no harm
_MAX_TEXT_CHARS = 1600  # of a stored text: a proposer reads 3,200 of a whole episode
_MAX_SCHEMA_CHARS = 20_000  # of a tool, which the proposer reads
_MAX_TURNS = 8  # the latest turns of a conversation, which are stored
_QUESTION = TypeAdapter(Question)

EventKind = Literal["described", "opened", "called", "answered", "ended"]


def _clip_text(text: str) -> str:
    """Return a text clipped to the length that is stored, in whole characters."""
    return clip(text, _MAX_TEXT_CHARS).encode(errors="replace").decode()


ClippedText = Annotated[str, AfterValidator(_clip_text)]
Number = Annotated[float, Field(ge=-1e100, le=1e100)]  # as the engine takes them


class UnknownConversationError(EvopromptError, LookupError):
    """No open conversation has this key: it was never opened, or it is over."""

    status = 404


class FullDiskError(EvopromptError, OSError):
    """The folder cannot be written, so that no event can be counted."""

    status = 503


class GatewayStoppedError(EvopromptError, RuntimeError):
    """The gateway was closed, or an event failed while it was applied; it must be restarted."""

    status = 503


class _Conversation(BaseModel):
    """One rollout.

    Attributes:
        group: name of its group.
        upstream: base URL of its own; empty for that of the settings.
        turns: pairs of an answer and the observation after it.
        asked: digest of its last request.
        broken: reason why its last answer is missing or incomplete; else empty.
        outcome: of the rollout; None while the conversation is open.
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
        question: the same for all conversations.
        keys: of its conversations, in the order they were opened.
        assignments: of candidates to its conversations; empty before the first request.
        over: whether its outcomes wait for the end of the step.
    """

    question: Question
    keys: list[str] = []
    assignments: list[Assignment] = []
    over: bool = False


class _GatewayState(BaseModel):
    """State of the gateway in a checkpoint, next to the state of the engine.

    Attributes:
        rollouts: number of conversations of a group.
        prompt: the first chat, as the context of a proposer; empty before it.
        tools: schemas of its tools.
        conversations: the conversations of groups that are not over, by key.
        groups: the groups that are not over, by name.
    """

    rollouts: int
    prompt: str = ""
    tools: list[dict[str, JsonValue]] = []
    conversations: dict[str, _Conversation] = {}
    groups: dict[str, _Group] = {}


class _Event(BaseModel, extra="forbid", allow_inf_nan=False):
    """A line of the journal."""

    what: EventKind
    group: str = ""
    key: str = ""
    question: Question | None = None
    upstream: str = Field("", pattern=r"^(https?://.+)?$")
    asked: str = ""
    seen: ClippedText = ""
    said: ClippedText = ""
    broken: ClippedText = ""
    prompt: str = ""
    tools: list[dict[str, JsonValue]] = []
    reward: Number | None = None
    metrics: dict[str, Number] = {}


class Conversations:
    """All conversations with the candidates of an engine; several threads may use it.

    Args:
        engine: source of the candidates and recipient of the rewards.
        settings: the directory of the state, and the size of a step.
        clock: seconds that only go forward.

    Raises:
        InputError: the engine needs rollouts of its own to verify, draws once a step, or cannot
            divide the rollouts of a group; or the folder belongs to something else.
        StateError: the content of the folder is damaged, or of other settings.
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
        self._answered = threading.Condition(self._lock)
        self._is_evolving = False  # outside the lock, while requests of known groups go on
        self._is_due = False  # for the thread that ended the step
        self._is_unwritable = False
        self._fault = ""
        self._state = _GatewayState(rollouts=settings.rollouts)
        self._activity_times: dict[str, float] = {}
        self._busy: Counter[str] = Counter()
        self._requests: Counter[str] = Counter()  # under way, by conversation
        self._binding = Binding(engine, self, resume="auto")
        try:
            self._each = engine.divide_rollouts(settings.rollouts, "rollouts")
            _require_no_extra_rollouts(engine)
            folder_lock = keep_log(settings.directory, engine, self)
            self._binding.until_detach(folder_lock.release)
            self._begin()
        except BaseException:
            self._binding.detach()
            raise
        self._binding.log_plan()

    def conversation(
        self, question: Question, group: str = "", key: str = "", upstream: str = ""
    ) -> str:
        """Open a conversation and return its key, which its agent uses as its API key.

        Args:
            question: of the rollout; equal for all conversations of a group.
            group: name of this visit to the question; if not given, the first group of this
                question with room, else a new group.
            key: of the conversation; random if not given. Opening a key again changes only its
                ``upstream``.
            upstream: base URL of its own, such as that of a trainer that records the samples of
                each rollout; the agent's API key is sent there. If empty, that of the settings.

        Raises:
            InputError: the group or key belongs to another question, or the group is full or over;
                the question is not text and a row of JSON values, or upstream is no URL.
        """
        if not _KEY.fullmatch(key):
            raise InputError(
                f"the key is {key!r:.100}; required: at most 512 visible ASCII characters, as in "
                "the header of a request"
            )
        try:  # as a restart reads it
            question = _QUESTION.validate_json(_QUESTION.dump_json(question, warnings=False))
        except ValueError as error:
            raise InputError(
                f"the question is {question!r:.100} ({format_error(error):.200}); required: an "
                "evoprompt.Question of texts, with a row of JSON values"
            ) from error
        with self._require_running():
            conversation = self._state.conversations.get(key)
            if not group:
                group = conversation.group if conversation else self._find_group_name(question)
            visit = self._state.groups.get(group)
            is_key_elsewhere = conversation is not None and conversation.group != group
            is_other_question = visit is not None and visit.question != question
            is_full = visit is not None and (
                visit.over or len(visit.keys) >= self.settings.rollouts
            )
            if is_key_elsewhere or is_other_question or (is_full and conversation is None):
                raise InputError(
                    f"a conversation of question {question.id!r} cannot be opened in group "
                    f"{group!r}: the key or the group is of another question, or the group has "
                    f"its {self.settings.rollouts} conversations or is over; required: a key for "
                    "each conversation and a group for each visit to a question"
                )
            key = key or f"evo-{secrets.token_urlsafe(24)}"
            if conversation is None or conversation.upstream != upstream:
                self._record_event(
                    "opened", group=group, key=key, question=question, upstream=upstream
                )
            return key

    def _find_group_name(self, question: Question) -> str:
        """Return the first group of a question that has room, or a new name."""
        for name, group in self._state.groups.items():
            has_room = len(group.keys) < self.settings.rollouts and not group.over
            if has_room and group.question == question:
                return name
        return f"{question.id}-{secrets.token_hex(4)}"

    def upstream(self, key: str) -> str:
        """Return the base URL of a conversation's own upstream; empty if it has none.

        Raises:
            UnknownConversationError: the conversation is not open.
        """
        with self._require_running():
            return self._open_conversation(key).upstream

    @contextmanager
    def calling(self, key: str) -> Iterator[Candidate]:
        """Yield the candidate of a conversation; its group does not expire inside the context.

        Raises:
            UnknownConversationError: the conversation is not open.
        """
        with self._require_running():
            name = self._open_conversation(key).group
            if not self._state.groups[name].assignments:
                self._evolved.wait_for(lambda: not self._is_evolving)
                name = self._open_conversation(
                    key
                ).group  # the conversation may have changed meanwhile
            group = self._state.groups[name]
            self._require_space()
            if not group.assignments:
                self._record_event("called", group=name)
            self._busy[name] += 1
            self._requests[key] += 1
            candidate = group.assignments[group.keys.index(key) // self._each].candidate
        try:
            yield candidate
        finally:
            with self._lock:
                for counter, counted in ((self._busy, name), (self._requests, key)):
                    counter[counted] -= 1
                    if not counter[counted]:
                        del counter[counted]
                self._answered.notify_all()
                if name in self._state.groups:
                    self._activity_times[name] = self._clock()

    def must_wait(self, key: str) -> bool:
        """Return whether the next request of a conversation waits while the engine evolves.

        Raises:
            UnknownConversationError: the conversation is not open.
        """
        with self._require_running():
            return (
                self._is_evolving
                and not self._state.groups[self._open_conversation(key).group].assignments
            )

    def record_answer(
        self, key: str, observation: str, answer: str, broken: str = "", request: str = ""
    ) -> None:
        """Record an answer; do nothing if the conversation has ended meanwhile.

        Args:
            key: of the conversation.
            observation: the text after the previous answer.
            answer: the text of the policy.
            broken: reason why the answer is missing or incomplete through no fault of the agent;
                else empty.
            request: its body. If the last request is sent again, the answer replaces the last one.
        """
        with self._require_running():
            conversation = self._state.conversations.get(key)
            if conversation is not None and conversation.outcome is None:
                digest = blake2b(request.encode(), digest_size=8).hexdigest() if request else ""
                self._record_event(
                    "answered",
                    key=key,
                    seen=observation,
                    said=answer,
                    broken=broken,
                    asked=digest,
                )

    def describe(self, prompt: str, tools: Sequence[JsonValue]) -> None:
        """Store the first chat and its tools as the context of the proposer.

        The journal has them, since the next gateway decides and counts by them.

        Args:
            prompt: the chat, with the place of the instruction.
            tools: schemas of the tools; those that are no mappings, cannot be written, or are too
                long are left out.
        """
        with self._require_running():
            if not self.engine.setting.prompt:
                schemas = list(filter(None, map(_plain_schema, tools)))
                whole_prompt = prompt.encode(errors="replace").decode()
                self._record_event("described", prompt=whole_prompt, tools=schemas)
                if len(schemas) < len(tools):
                    warn(
                        f"{len(tools) - len(schemas)} of {len(tools)} tools of the first request "
                        "are not shown to the proposer; required: JSON objects of at most "
                        f"{_MAX_SCHEMA_CHARS:,} characters"
                    )

    def reward(
        self,
        key: str,
        reward: float | None,
        feedback: str = "",
        metrics: Mapping[str, float] | None = None,
    ) -> str:
        """End a conversation with its reward.

        Wait for a moment while a request of it is under way: an agent may have closed a stream just
        now, and its answer counts.

        Args:
            key: of the conversation.
            reward: None for a rollout that failed.
            feedback: a text about the rollout, for the proposer.
            metrics: further numbers.

        Returns:
            The reason why the rollout counts as failed: there was no answer of the model, or its
            last answer is incomplete; else an empty text.

        Raises:
            InputError: a number is NaN, infinite or beyond 1e100.
            UnknownConversationError: the conversation is not open.
        """
        with self._require_running():
            self._answered.wait_for(lambda: not self._requests[key], _MAX_WAIT_SECONDS)
        with self._require_running():
            failure_reason = self._open_conversation(key).broken
            self._record_event(
                "ended",
                key=key,
                reward=reward,
                broken=failure_reason,
                metrics=metrics or {},
                said=feedback,
            )
        self._evolve()
        return failure_reason

    def expire(self) -> None:
        """End the groups without a request for longer than the timeout of the settings."""
        with self._require_running():
            deadline = self._clock() - self.settings.timeout
            for name, group in list(self._state.groups.items()):
                last_seconds = self._activity_times.get(name, deadline + 1)
                is_silent = last_seconds <= deadline and not self._busy[name]
                if is_silent and not group.over:
                    self._record_event("ended", group=name)
        self._evolve()

    def close(self) -> None:
        """Save everything and free the engine and the folder. A second call does nothing."""
        with self._lock:
            self._evolved.wait_for(lambda: not self._is_evolving)
            if self._binding.attached:
                if not self._fault:
                    self._save()
                    self._binding.report_end()
                self._binding.detach()

    # ------------------------------------------------------------------------------------ events

    @contextmanager
    def _require_running(self) -> Iterator[None]:
        """Hold the lock inside the context.

        Raises:
            GatewayStoppedError: an earlier event failed, or the gateway is closed.
        """
        with self._lock:
            if fault := self._fault or ("" if self._binding.attached else "it was closed"):
                raise GatewayStoppedError(
                    f"the gateway has stopped ({fault}); required: another one with the "
                    f"directory {self.settings.directory}; nothing that was counted is lost"
                )
            yield

    def _record_event(self, kind: EventKind, **fields: Any) -> None:
        """Write an event to the journal, then apply it; stop the gateway if that fails halfway.

        Raises:
            InputError: a value cannot be written; nothing has changed.
        """
        try:
            line = _Event(what=kind, **fields).model_dump_json(exclude_defaults=True).encode()
            event = _Event.model_validate_json(line)  # as the next gateway reads it, or not at all
        except ValidationError as error:
            raise InputError(
                f"{explain(error, _Event)}; required: finite numbers, texts, and URLs that begin "
                "with http:// or https://"
            ) from error
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
        """Make sure that the answer to a request can be written to the journal.

        Raises:
            FullDiskError: the directory cannot be written.
        """
        try:
            disk = os.statvfs(self.settings.directory)
            if disk.f_bavail * disk.f_frsize < _MIN_FREE_BYTES:
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
        if event.what == "described":
            self._state.prompt, self._state.tools = event.prompt, event.tools
            self._set_context()
            return
        name = event.group or conversations[event.key].group
        self._activity_times[name] = self._clock()
        if event.what == "opened" and event.question is not None:
            group = groups.setdefault(name, _Group(question=event.question))
            group.keys = [*dict.fromkeys([*group.keys, event.key])]  # the event may come again
            conversation = conversations.setdefault(event.key, _Conversation(group=name))
            conversation.upstream = event.upstream
            return
        group = groups[name]
        if event.what == "called":
            group.assignments = self.engine.ask(
                [group.question], self._each, step_of=self.settings.groups
            )
        elif event.what == "answered":
            conversation = conversations[event.key]
            is_repeated = bool(event.asked) and event.asked == conversation.asked
            if is_repeated and not conversation.broken:
                conversation.turns.pop()  # the agent did not receive its answer
            if conversation.turns:
                conversation.turns[-1] = (conversation.turns[-1][0], event.seen)
            if not event.broken:
                conversation.turns = [*conversation.turns, (event.said, "")][-_MAX_TURNS:]
            conversation.broken, conversation.asked = event.broken, event.asked
        else:
            if event.key:
                conversation = conversations[event.key]
                turns = tuple(Turn(*turn) for turn in conversation.turns)
                reward = None if event.broken else event.reward
                conversation.outcome = RolloutOutcome(reward, event.metrics, turns, event.said)
            is_full = len(group.keys) == self.settings.rollouts
            group.over = not event.key or (
                is_full and all(conversations[key].outcome for key in group.keys)
            )
        if group.over:
            self._step()

    def _step(self) -> None:
        """End a step of the engine if enough groups are over.

        The engine evolves afterwards, in :meth:`_evolve`. Until then no other step ends.
        """
        if self._is_evolving:
            return
        over = {name: group for name, group in self._state.groups.items() if group.over}
        called = [group for group in over.values() if group.assignments]
        is_complete = len(called) >= self.settings.groups
        if is_complete:
            pending, outcomes = self.engine.assignments.pending, list[tuple[Assignment, Outcomes]]()
            for group in called:
                group_outcomes = [self._state.conversations[key].outcome for key in group.keys]
                for position, assignment in enumerate(group.assignments):
                    if assignment.id in pending:  # else forgotten after 100 steps
                        start = position * self._each
                        outcomes.append((assignment, group_outcomes[start : start + self._each]))
            self._binding.end(outcomes)
        for name, group in over.items():
            if is_complete or not group.assignments:
                for key in group.keys:
                    del self._state.conversations[key]
                del self._state.groups[name], self._activity_times[name]
        self._is_evolving = self._is_due = is_complete

    def _evolve(self) -> None:
        """Evolve if a step has ended, while requests of groups that have candidates go on.

        Requests that need the engine wait. So the engine decides in the order of the journal, no
        matter when the other lines are written.
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

    def _open_conversation(self, key: str) -> _Conversation:
        """Return an open conversation.

        Raises:
            UnknownConversationError: no open conversation has the key.
        """
        conversation = self._state.conversations.get(key)
        if (
            conversation is None
            or conversation.outcome is not None
            or self._state.groups[conversation.group].over
        ):
            raise UnknownConversationError(
                "no open conversation has this key: it was never opened, has its reward, or was "
                "silent for too long; required: one that POST /conversations has opened"
            )
        return conversation

    # ------------------------------------------------------------------------------- on the disk

    def _begin(self) -> None:
        """Restore the newest whole checkpoint and replay its journal, or start anew."""
        folders = mend(self.settings.directory, CHECKPOINT)
        host = self._binding.load(folders[-1] if folders else None)
        if not folders:
            self._save()
            return
        try:
            state = _GatewayState.model_validate(host)
            if state.rollouts != self.settings.rollouts:
                raise ValueError(f"it was begun with {state.rollouts} rollouts")
            self._state = state
            self._set_context()
            self._activity_times = dict.fromkeys(state.groups, self._clock())
            self._journal = LineFile(folders[-1] / JOURNAL)
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
                f"{folders[-1]} cannot be continued ({format_error(error)}); required: the files "
                "of a gateway with the same settings; name another directory to begin anew"
            ) from error

    def _set_context(self) -> None:
        if self._state.prompt:
            prompt, tools = self._state.prompt, self._state.tools
            self.engine.setting = replace(self.engine.setting, prompt=prompt, tools=tools)

    def _evolve_again(self) -> bool:
        """Evolve as in :meth:`_evolve`, before any checkpoint; return whether that was due."""
        was_due = self._is_due
        while self._is_due:
            self._binding.begin((), self._each, _no_rollouts)
            self._is_evolving = self._is_due = False
            self._step()
        return was_due

    def _save(self) -> None:
        """Write a checkpoint with an empty journal, and remove the previous checkpoints."""
        old_folders = checkpoints(self.settings.directory, CHECKPOINT)
        last = int(old_folders[-1].name.removeprefix(CHECKPOINT)) if old_folders else -1
        folder = self.settings.directory / f"{CHECKPOINT}{last + 1}"
        with self._binding.save(folder, host=self._state.model_dump(mode="json")):
            self._journal = LineFile(folder / JOURNAL)
        for old_folder in old_folders:
            remove(old_folder)


def _plain_schema(schema: JsonValue) -> JsonValue:
    """Return a schema in whole characters and finite numbers; None if that is impossible."""
    try:
        text = json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(schema, dict) or len(text) > _MAX_SCHEMA_CHARS:
        return None
    plain: JsonValue = json.loads(text.encode(errors="replace"))
    return plain


def _require_no_extra_rollouts(engine: Engine) -> None:
    """Make sure that the engine needs no rollouts beyond the conversations.

    Raises:
        InputError: candidates would be verified by extra rollouts.
    """
    config = engine.config
    has_extra_rollouts = not engine.is_static and engine.generations.most_rollouts(1)
    if has_extra_rollouts:
        raise InputError(
            f"accept is {config.accept!r}: candidates would be verified by extra rollouts, which "
            "no client of a gateway makes; required: accept 'in-training' or 'all'"
        )


def _no_rollouts(assignments: Sequence[Assignment]) -> Sequence[Outcomes]:
    raise AssertionError(f"{len(assignments)} assignments to verify; required: none")
