"""``attach(trainer, engine)``: one call that makes a trainer's instruction part of its training.

And how an adapter recognises its host, and refuses one that it does not know.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Protocol

from filelock import FileLock, Timeout
from packaging.version import Version
from pydantic import JsonValue

from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.hosting.binding import Binding, Prompts, Resume
from evoprompt.hosting.prompts import Render, ShowsTools, system_message
from evoprompt.hosting.requests import supervise
from evoprompt.plugins import plugins
from evoprompt.support import yamlfile
from evoprompt.support.errors import AttachError, InputError, warn
from evoprompt.support.storage import LOCK, is_follower, write_whole

SETTINGS = "attached.yaml"
"""File in ``log_dir`` with what the training began with; beside it are events.jsonl and pool/."""

_OF_OTHERS = {"config.yaml": "a run", "settings.yaml": "an optimization"}


class Attachment(Protocol):
    """Binding of an engine to a trainer."""

    @property
    def engine(self) -> Engine:
        """Return the engine."""

    @property
    def prompts(self) -> Prompts | None:
        """Return the prompts of the trainer; None if they are unknown."""

    def detach(self) -> None:
        """Restore the trainer to its former state. Calling it again has no effect."""


@dataclass(frozen=True, slots=True)
class AttachRequest:
    """Request to an adapter to bind an engine to a trainer.

    Attributes:
        trainer: the host's trainer object.
        engine: the engine to bind to it.
        render: places the instruction in a prompt.
        adapter: name of the only adapter that may bind, or None for the first that recognises the
            trainer.
        probe: whether the proposer sends one request to its service; passed to ``Engine.check``.
        resume: ``"auto"`` to go on from the newest complete checkpoint, or else to begin anew.
    """

    trainer: object
    engine: Engine
    render: Render
    adapter: str | None = None
    probe: bool = True
    resume: Resume = None


def attach(
    trainer: object,
    engine: Engine,
    *,
    render: Render = system_message,
    adapter: str | None = None,
    probe: bool = True,
    log_dir: str | os.PathLike[str] | None = None,
    resume: Resume = "auto",
) -> Attachment:
    """Bind ``engine`` to a trainer that is already constructed; then train it as before.

    A proposer with a language model sends one short request, so that a wrong key or name is found
    immediately.

    Args:
        trainer: a TRL ``GRPOTrainer`` or ``RLOOTrainer``, the ``rl.train.Config`` of a
            tinker-cookbook recipe, or whatever an installed adapter knows.
        engine: owns the population; only rank 0 uses it.
        render: places the instruction in a prompt; the system message by default.
        adapter: name of the adapter to use when more than one could.
        probe: whether to make that call; everything else is checked in any case.
        log_dir: folder for the events and settings, which ``evoprompt watch`` and ``evoprompt
            report`` read; new, or that of the training that is resumed. Where several processes
            train, the first writes it. None leaves the events where the engine keeps them.
        resume: ``"auto"``, the default, allows the same command again after any end of the
            training: it continues from the newest complete checkpoint; without one it starts from
            the beginning, with the events of the previous attempt set aside in ``log_dir``. None
            leaves it to the trainer, and a training that starts from the beginning in a folder with
            events ends with an error.

    Returns:
        The binding; ``detach()`` undoes it.

    Raises:
        InputError: the engine's proposer cannot work, or ``log_dir`` is of another training.
        AttachError: no adapter recognises the trainer, or the one that does cannot serve it; or
            ``engine`` or ``render`` is of a wrong type; or descriptions of tools are to evolve,
            which ``render`` does not show.
    """
    _require("engine", engine, isinstance(engine, Engine), "an evoprompt.Engine")
    if resume not in (None, "auto"):
        raise AttachError(
            f'resume is {resume!r}; required: None or "auto"; to resume from one checkpoint give '
            "its folder to the trainer"
        )
    _require(
        "render",
        render,
        callable(render),
        "a function, such as evoprompt.hosting.prompts.user_prefix",
    )
    tools = {name for member in engine.population.members for name in member.tool_descriptions}
    # A trainer with tools of its own is its adapter's to serve or to refuse.
    if tools and not isinstance(render, ShowsTools) and not getattr(trainer, "tools", None):
        raise AttachError(
            f"descriptions of the tools {', '.join(sorted(tools))} are to evolve, but the prompts "
            "of this trainer do not show them; required: a GRPOTrainer with tools=, the trainer "
            "that a host of evoprompt builds for a task, or seeds that are instructions alone; use "
            "one of these, or drop these components"
        )
    manager = plugins().manager
    request = AttachRequest(trainer, engine, render, adapter, probe, resume)
    attachment: Attachment | None = manager.hook.evoprompt_attach(request=request)
    if attachment is not None:
        if log_dir is not None and not is_follower():
            try:
                lock = keep_log(Path(log_dir), engine, trainer)
            except InputError:
                attachment.detach()
                raise
            if isinstance(attachment, Binding):
                attachment.until_detach(lock.release)
        return attachment
    adapter_names = sorted(
        implementation.plugin_name
        for implementation in manager.hook.evoprompt_attach.get_hookimpls()
    )
    trainer_name = f"{type(trainer).__module__}.{type(trainer).__qualname__}"
    condition = f" with adapter={adapter!r}" if adapter else ""
    raise AttachError(
        f"no adapter recognises a {trainer_name}{condition} (adapters: "
        f"{', '.join(adapter_names) or 'none'}); required: a TRL GRPOTrainer or RLOOTrainer, a "
        "veRL PPOTrainer, or the rl.train.Config of tinker-cookbook; "
        'install the host\'s extra, pip install -e ".[trl]", ".[verl]" or ".[tinker]", or a '
        "plugin for it"
    )


def _require(name: str, value: object, suits: bool, requirement: str) -> None:
    if not suits:
        kind = type(value).__name__
        description = (
            f"the class {value.__name__}" if isinstance(value, type) else f"of type {kind}"
        )
        raise AttachError(
            f"{name} is {description}; required: {requirement}; write attach(trainer, engine, "
            "render=...), the trainer first"
        )


def keep_log(root: Path, engine: Engine, trainer: object) -> FileLock:
    """Keep settings, events and requests of a training in a folder from now on.

    Other files there, such as the trainer's own checkpoints, are left alone.

    Args:
        root: new, or of the same training, which is then to be resumed.
        engine: as it is before its first step.
        trainer: it is attached to.

    Returns:
        The lock of the folder, to be released at the end.

    Raises:
        InputError: the folder is of something else or of a process that trains, or cannot be
            written, or the engine keeps its events in a file already.
    """
    if engine.log.path is not None:
        raise InputError(
            f"log_dir is {root}, and the engine keeps its events in {engine.log.path} already; "
            "required: one of the two; leave out log_dir, or log= of the engine"
        )
    for name, whose in _OF_OTHERS.items():
        if (root / name).is_file():
            raise _taken(root, f"holds {whose} ({name})")
    # One lock in this process: attaching again after an error needs no detach before.
    lock = FileLock(root / LOCK, thread_local=False, is_singleton=True)
    settings = root / SETTINGS
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
        if not settings.is_file():
            kind = type(trainer)
            began: dict[str, JsonValue] = {
                "trainer": f"{kind.__module__}.{kind.__qualname__}",
                "engine": engine.config.model_dump(mode="json"),
            }
            write_whole(settings, yamlfile.dump(began))
        engine.log.move_to(root / "events.jsonl")
    except Timeout:
        raise _taken(root, "is another process's, which trains at this moment") from None
    except OSError as error:
        raise InputError(
            f"log_dir is {root}, which cannot be written to ({error.strerror}); required: a folder "
            "with room and the right to write; name another"
        ) from error
    supervise(engine)
    return lock


def _taken(root: Path, finding: str) -> InputError:
    return InputError(
        f"log_dir {root} {finding}; required: a new folder, or that of the training that is "
        "resumed; name another"
    )


def is_instance(instance: object, module: str, name: str) -> bool:
    """Return whether ``instance`` is an instance of a class, without an import of its module."""
    loaded_class = getattr(sys.modules.get(module), name, None)
    return isinstance(loaded_class, type) and isinstance(instance, loaded_class)


def require_version(name: str, version: str, minimum: str, tested: str) -> None:
    """Refuse a host that is too old; warn of one that is newer than the tested versions.

    Args:
        name: of its distribution.
        version: that is installed.
        minimum: the oldest that has what the adapter needs.
        tested: the newest that the tests were run with.

    Raises:
        AttachError: it is too old.
    """
    if Version(version) < Version(minimum):
        raise AttachError(
            f"{name} {version} is too old; required: {name}>={minimum}; "
            f'pip install --upgrade "{name}>={minimum}"'
        )
    parts = len(Version(tested).release)
    if Version(version).release[:parts] > Version(tested).release:
        warn(
            f"{name} {version} is newer than {tested}, the newest that evoprompt was tested with; "
            f'should anything look odd: pip install "{name}=={tested}.*"'
        )


def require_question_baseline(config: EngineConfig, host: str) -> None:
    """Refuse several candidates a question with a baseline each, where the host has one for all.

    Args:
        config: numbers of the engine.
        host: who compares what, as the beginning of a sentence.

    Raises:
        InputError: a question has several candidates, and the grouping is by candidate.
    """
    several = config.candidates_per_question
    if several not in ("auto", 1) and config.grouping == "candidate":
        raise InputError(
            f"candidates_per_question is {several} with grouping 'candidate', but {host} with each "
            "other; required: grouping 'question'; set it, or drop both settings"
        )


def require_methods(owner: object, methods: Mapping[str, Sequence[str]], remedy: str) -> None:
    """Check that the host has the methods that the adapter wraps or calls.

    Args:
        owner: an object, a class or a module of the host.
        methods: their names and first parameters. Those of an object are looked up in its class:
            a function that the user has put around a method need not have the same parameters.
        remedy: the version that has them.

    Raises:
        AttachError: one is missing, or takes other parameters.
    """
    kind = owner if isinstance(owner, type | ModuleType) else type(owner)
    for name, required in methods.items():
        method = getattr(kind, name, None)
        parameters = tuple(inspect.signature(method).parameters) if callable(method) else ()
        if isinstance(kind, type) and inspect.isfunction(method):
            parameters = parameters[1:]
        if not callable(method) or parameters[: len(required)] != tuple(required):
            description = f"{name}({', '.join(parameters)})" if callable(method) else f"no {name}"
            raise AttachError(
                f"{kind.__name__} has {description}; required: {name}({', '.join(required)}); "
                f"{remedy}"
            )


def methods_of(protocol: type) -> dict[str, tuple[str, ...]]:
    """Return the methods of ``protocol`` with their parameters, which a host must have."""
    return {
        name: tuple(inspect.signature(method).parameters)[1:]
        for name, method in vars(protocol).items()
        if inspect.isfunction(method) and not name.startswith("__")
    }


def require_attributes(owner: object, names: Sequence[str], remedy: str) -> None:
    """Check that an object of the host has the attributes that are read, perhaps by a dotted name.

    Raises:
        AttachError: it lacks one.
    """
    for name in names:
        value: object = owner
        for part in name.split("."):
            if not hasattr(value, part):
                kind = owner if isinstance(owner, type | ModuleType) else type(owner)
                raise AttachError(f"{kind.__name__} has no {name}; required: {name}; {remedy}")
            value = getattr(value, part)
