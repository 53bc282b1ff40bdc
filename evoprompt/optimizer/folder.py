"""The folder of an optimization.

::

    DIR/
      settings.yaml           what was asked for
      journal.jsonl           every rollout and every answer of the proposer, as they come
      events.jsonl            what happened
      best_instruction.txt
      result.json             value, rollouts, curve and candidates
      lm-spending.jsonl       what the proposer's language model has spent
      model-spending.jsonl    what the program's own has, where it is counted
      writer.lock             held by the process that writes the folder
      report.html             by ``evoprompt report DIR``
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import JsonValue

from evoprompt.lm.budget import SPENDING_FILE
from evoprompt.optimizer.data import Item
from evoprompt.support import yamlfile
from evoprompt.support.errors import InputError
from evoprompt.support.storage import is_temporary, only_writer, require_folder, write_whole

SETTINGS = "settings.yaml"
EVENTS = "events.jsonl"
RESULT = "result.json"
SPENDING = "model-spending.jsonl"
"""Journal of what the model that is asked has cost."""
_FREE = frozenset({"budget", "seconds", "patience"})
"""Settings that may change on a resume: they say when to stop, and decide nothing before."""


@contextmanager
def held(root: Path, resume: bool) -> Iterator[None]:
    """Keeps ``root`` for this optimization while inside: no other one may write there.

    What was spent before anything was begun, as by a language model that did not answer, does not
    make a new folder an old one.

    Raises:
        InputError: another one is at work there, a new run's folder is not empty, an old one's
            was never begun, or it cannot be written.
    """
    require_folder(root, "directory")
    if resume and not is_begun(root):
        raise InputError(
            f"directory is {root}, which holds no {SETTINGS} to resume from; required: that of an "
            "optimization that was begun; check the path, or leave resume out"
        )
    try:
        with only_writer(root, "an optimization"):
            _require_new(root, resume)
            yield
    except OSError as error:  # a program's and a proposer's never come as far as this
        raise InputError(
            f"directory is {root}, which cannot be written ({error.strerror or error}); required: "
            "a folder with room and the right to write; mend that, and go on with resume where "
            "rollouts were made, or name another"
        ) from error


def _require_new(root: Path, resume: bool) -> None:
    if not resume and any(map(_is_anothers, root.iterdir())):
        raise InputError(
            f"directory is {root}, which is not empty; required: a new one; name another, or "
            "continue it with options=OptimizeOptions(resume=True)"
        )


def _is_anothers(file: Path) -> bool:
    """Whether ``file`` shows that a folder is not a new one."""
    ours = file.suffix == ".lock" or file.name in (SPENDING_FILE, SPENDING)
    return not (ours or is_temporary(file))


def begin(root: Path, settings: Mapping[str, JsonValue], resume: bool) -> None:
    """Makes ``root`` ready to be written, or to be written on.

    Raises:
        InputError: an old one's settings are others.
    """
    known = root / SETTINGS
    if resume:
        before = yamlfile.read(known)
        for name in sorted((before.keys() | settings.keys()) - _FREE):
            if before.get(name) != settings.get(name):
                raise InputError(
                    f"{name} is {_shown(settings.get(name))}, and {root} was begun with "
                    f"{_shown(before.get(name))}; required: the same; restore it, or begin anew in "
                    "another directory"
                )
        (root / EVENTS).unlink(missing_ok=True)  # they happen again, up to where it was stopped
    write_whole(known, yamlfile.dump(settings))


def is_begun(root: Path) -> bool:
    """Whether an optimization was begun in ``root``."""
    return (root / SETTINGS).is_file()


def digest_of(items: Sequence[Item]) -> str:
    """What tells one set of examples from another."""
    said = json.dumps([(item.question.text, item.question.answers) for item in items])
    return f"{len(items)} examples, {hashlib.blake2b(said.encode(), digest_size=8).hexdigest()}"


def _shown(value: JsonValue) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
