"""The folder of an optimization.

::

    DIR/
      settings.yaml           what was asked for
      journal.jsonl           every rollout and every answer of the proposer, as they come
      events.jsonl            what happened
      best_instruction.txt
      result.json             value, rollouts, curve and candidates
      lm-spending.jsonl       what the proposer's language model has spent
      report.html report.png  if ``result.report(DIR)`` is called
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from evoprompt.checkpoint import is_temporary, require_folder, write_whole
from evoprompt.errors import InputError
from evoprompt.frozen.data import ExampleT, Item
from evoprompt.frozen.journal import JOURNAL
from evoprompt.runs import yamlfile

SETTINGS = "settings.yaml"
EVENTS = "events.jsonl"
RESULT = "result.json"
_FREE = frozenset({"budget", "seconds", "patience"})
"""Settings that may change on a resume: they say when to stop, and decide nothing before."""


def begin(root: Path, settings: Mapping[str, JsonValue], resume: bool) -> None:
    """Makes ``root`` ready to be written, or to be written on.

    Raises:
        InputError: a new run's folder is not empty, or an old one's settings are others.
    """
    require_folder(root, "resume" if resume else "directory")
    known = root / SETTINGS
    if resume:
        if not known.is_file():
            raise InputError(
                f"resume is {root}, which holds no {SETTINGS}; required: the directory of an "
                "optimization that was begun; check the path"
            )
        before = yamlfile.read(known)
        for name in sorted((before.keys() | settings.keys()) - _FREE):
            if before.get(name) != settings.get(name):
                raise InputError(
                    f"{name} is {_shown(settings.get(name))}, and {root} was begun with "
                    f"{_shown(before.get(name))}; required: the same; restore it, or begin anew in "
                    "another directory"
                )
        (root / EVENTS).unlink(missing_ok=True)  # they happen again, up to where it was stopped
    elif root.is_dir() and not all(map(is_temporary, root.iterdir())):
        raise InputError(
            f"directory is {root}, which is not empty; required: a new one; name another, or "
            f"continue it with resume={str(root)!r}"
        )
    write_whole(known, yamlfile.dump(settings))


def is_begun(root: Path) -> bool:
    """Whether an optimization was begun in ``root``."""
    return (root / SETTINGS).is_file()


def has_ended(root: Path) -> bool:
    """Whether an optimization has left its result in ``root``."""
    return is_begun(root) and (root / RESULT).is_file()


def digest_of(items: Sequence[Item[ExampleT]]) -> str:
    """What tells one set of examples from another."""
    said = json.dumps([(item.question.text, item.question.answers) for item in items])
    return f"{len(items)} examples, {hashlib.blake2b(said.encode(), digest_size=8).hexdigest()}"


def journal_of(root: Path) -> Path:
    """The file of rollouts and answers."""
    return root / JOURNAL


def _shown(value: JsonValue) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
