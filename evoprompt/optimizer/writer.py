"""The proposer of ``evoprompt.optimize``, from a name and a language model."""

from __future__ import annotations

from pathlib import Path

from evoprompt.errors import InputError
from evoprompt.faults import require_type
from evoprompt.lm.budget import SpendTracker
from evoprompt.lm.client import GivenLm, told_apart
from evoprompt.plugins import build, plugins
from evoprompt.proposers.sentences import SentenceProposer
from evoprompt.roles import BuildContext, Proposer


def built(
    proposer: str | Proposer,
    lm: GivenLm | None,
    root: Path | None,
    spending: SpendTracker,
) -> Proposer:
    """The proposer of an optimization, whose language model has answered.

    Args:
        proposer: its name, or itself.
        lm: its language model.
        root: folder of the optimization.
        spending: takes what the language model costs.

    Raises:
        InputError: the two do not go together, or the language model gives no answer.
    """
    if not isinstance(proposer, str):
        if lm is not None:
            raise InputError(
                "lm is given beside a proposer that is an object; required: a proposer's name, or "
                "no lm; build the object with its own language model"
            )
        require_type("proposer", proposer, Proposer)
        return proposer
    # In this thread: there is no training to go on meanwhile.
    settings: dict[str, object] = {"name": proposer, "background": False}
    wanted = plugins().find("proposer", proposer).component
    if issubclass(wanted, SentenceProposer):
        raise InputError(
            f"proposer is {proposer!r}, which edits sentences of a task's bank, and here is no "
            'task; required: proposer="reflection" with lm="openai/gpt-5-mini", or an object with '
            "a method propose; of a task that has a bank, evoprompt optimize TASK on the command "
            "line"
        )
    takes = wanted.Settings.model_fields
    if lm is None and "lm" in takes and takes["lm"].is_required():
        raise InputError(
            f"lm is not given, and the proposer {proposer!r} asks a language model; required: the "
            'one that reflects and writes, such as lm="openai/gpt-5-mini"; or another proposer'
        )
    if lm is not None and "lm" not in takes:
        raise InputError(
            f"lm is given, and the proposer {proposer!r} takes none; required: one that does, such "
            'as proposer="reflection"; change it, or leave lm out'
        )
    given = None
    if lm is not None:
        settings["lm"], given = told_apart(lm)
    context = BuildContext(directory=root, spending=spending, given=given)
    found = build("proposer", settings, context)
    found.check(probe=True)  # a rollout costs more than a word
    return found
