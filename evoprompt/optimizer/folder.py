"""The folder of an optimization.

::

    DIR/
      settings.yaml           the settings of the optimization
      journal.jsonl           every rollout and every reply of the proposer, as they come
      events.jsonl            the log
      best_instruction.txt
      result.json             value, rollouts, curve and candidates
      lm-spending.jsonl       the cost of the proposer's language model
      model-spending.jsonl    the cost of the program's own model, if it is counted
      writer.lock             lock of the process that writes the folder
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
"""Journal of the cost of the program's model."""
_CHANGEABLE_SETTINGS = frozenset({"budget", "seconds", "patience"})
"""Settings that may change on a resume: they determine when to stop, and nothing before."""


@contextmanager
def lock_folder(root: Path, resume: bool) -> Iterator[None]:
    """Lock ``root`` for this optimization while inside: no other optimization may write there.

    A folder still counts as new if it only holds records of costs from before the optimization
    began, such as those of a language model that did not respond.

    Raises:
        InputError: another optimization is running there, the folder of a new run is not empty,
            the folder of a resumed run was never begun, or it cannot be written.
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
    except OSError as error:  # errors of a program or a proposer are handled before
        raise InputError(
            f"directory is {root}, which cannot be written ({error.strerror or error}); required: "
            "a folder with room and the right to write; mend that, and go on with resume where "
            "rollouts were made, or name another"
        ) from error


def _require_new(root: Path, resume: bool) -> None:
    if not resume and any(map(_is_foreign, root.iterdir())):
        raise InputError(
            f"directory is {root}, which is not empty; required: a new one; name another, or "
            "continue it with options=OptimizeOptions(resume=True)"
        )


def _is_foreign(file: Path) -> bool:
    """Return whether ``file`` shows that its folder is not new."""
    is_expected = file.suffix == ".lock" or file.name in (SPENDING_FILE, SPENDING)
    return not (is_expected or is_temporary(file))


def prepare_folder(root: Path, settings: Mapping[str, JsonValue], resume: bool) -> None:
    """Prepare ``root`` for a new optimization, or for one that is resumed.

    Raises:
        InputError: the settings of the optimization to resume differ.
    """
    settings_path = root / SETTINGS
    if resume:
        old_settings = yamlfile.read(settings_path)
        for name in sorted((old_settings.keys() | settings.keys()) - _CHANGEABLE_SETTINGS):
            if old_settings.get(name) != settings.get(name):
                raise InputError(
                    f"{name} is {_excerpt(settings.get(name))}, and {root} was begun with "
                    f"{_excerpt(old_settings.get(name))}; required: the same; restore it, or begin "
                    "anew in another directory"
                )
        (root / EVENTS).unlink(missing_ok=True)  # written again, up to where the run was stopped
    write_whole(settings_path, yamlfile.dump(settings))


def is_begun(root: Path) -> bool:
    """Return whether an optimization was begun in ``root``."""
    return (root / SETTINGS).is_file()


def digest_of(items: Sequence[Item]) -> str:
    """Return a text that identifies a set of examples: its size and a digest."""
    content = json.dumps([(item.question.text, item.question.answers) for item in items])
    return f"{len(items)} examples, {hashlib.blake2b(content.encode(), digest_size=8).hexdigest()}"


def _excerpt(value: JsonValue) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
