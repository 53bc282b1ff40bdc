"""The folder of a training that an engine is attached to: ``attach(trainer, engine, log_dir=DIR)``.

::

    DIR/
      attached.yaml           what the training began with
      events.jsonl            everything that happened
      pool/                   what persons asked of it
      writer.lock             held by the process that trains

Whatever else lies there, such as the trainer's own checkpoints, is left alone.
"""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import JsonValue

from evoprompt import yamlfile
from evoprompt.engine import Engine
from evoprompt.errors import InputError
from evoprompt.requests import supervise
from evoprompt.storage import LOCK, require_folder, write_whole

SETTINGS = "attached.yaml"
EVENTS = "events.jsonl"
SCHEMA_VERSION = 1

_OF_OTHERS = {"config.yaml": "a run", "settings.yaml": "an optimization"}


class LogFolder:
    """Where a training is to keep its events; nothing is written before :meth:`keep`.

    Args:
        root: new, empty, or the same training's.
        engine: as it is before its first step.
        trainer: it is attached to.

    Raises:
        InputError: the folder is of another training, or cannot be written, or the engine keeps
            its events in a file already.
    """

    def __init__(self, root: Path, engine: Engine, trainer: object) -> None:
        require_folder(root, "log_dir")
        if engine.log.path is not None:
            raise InputError(
                f"log_dir is {root}, and the engine keeps its events in {engine.log.path} already; "
                "required: one of the two; leave out log_dir, or log= of the engine"
            )
        self._root = root
        self._engine = engine
        self._settings = _settings(engine, trainer)
        # One in this process: who attaches again after an error need not detach before.
        self.lock = FileLock(root / LOCK, thread_local=False, is_singleton=True)
        self._require_own()

    def keep(self) -> None:
        """Keeps settings, events and requests there from now on.

        Raises:
            InputError: nothing can be written there.
        """
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            self.lock.acquire(timeout=0)
            if not (self._root / SETTINGS).is_file():
                write_whole(self._root / SETTINGS, yamlfile.dump(self._settings))
            self._engine.log.move_to(self._root / EVENTS)
        except Timeout:
            raise self._taken("is another process's, which trains at this moment") from None
        except OSError as error:
            raise InputError(
                f"log_dir is {self._root}, which cannot be written to ({error.strerror}); "
                "required: a folder with room and the right to write; name another"
            ) from error
        supervise(self._engine)

    def _require_own(self) -> None:
        for name, whose in _OF_OTHERS.items():
            if (self._root / name).is_file():
                raise self._taken(f"holds {whose} ({name})")
        if not (self._root / SETTINGS).is_file():
            if (self._root / EVENTS).is_file():
                raise self._taken(f"holds {EVENTS} without {SETTINGS}")
            return
        before = yamlfile.read(self._root / SETTINGS)
        for name in sorted(before.keys() | self._settings.keys()):
            if before.get(name) != self._settings.get(name):
                raise self._taken(
                    f"is of another training: {name} was {before.get(name)!r}, and is "
                    f"{self._settings.get(name)!r}"
                )

    def _taken(self, finding: str) -> InputError:
        return InputError(
            f"log_dir {self._root} {finding}; required: a new folder, or that of the training that "
            "is resumed; name another"
        )


def _settings(engine: Engine, trainer: object) -> dict[str, JsonValue]:
    """What two trainings that are the same agree in, as far as it can be told at the start."""
    kind = type(trainer)
    parts = {
        "proposer": engine.proposer,
        "attributor": engine.selection.attributor,
        "sampler": engine.selection.sampler,
        "survivor": engine.selection.survivor,
        "parent_selector": engine.selection.parent_selector,
        "verifier": engine.generations.verifier,
    }
    seeds = [event["components"] for event in engine.log if event["event"] == "seeded"]
    return {
        "schema_version": SCHEMA_VERSION,
        "trainer": f"{kind.__module__}.{kind.__qualname__}",
        "seeds": [dict(one) for one in seeds],
        "components": {name: type(part).__name__ for name, part in parts.items()},
        "engine": engine.config.model_dump(mode="json"),
    }
