"""What a row carries of its rollout for whatever scores it, in any process of veRL's.

Workers import this module; it loads neither torch nor veRL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evoprompt.hosting.binding import Purpose

PROMPT = "raw_prompt"
"""Column of the messages that the agent loops render."""

EXTRA = "extra_info"
"""Column that veRL hands to reward functions."""

PROMPTS = "evoprompt_prompts"
"""Column of the instruction and the prompt of each rollout of a row, if it has several candidates.
"""

_PURPOSE = "evoprompt_purpose"
_INSTRUCTION = "evoprompt_instruction"
_OWN_PROMPT = "evoprompt_prompt"  # only until the rollout ends


def with_context(
    extra: object, purpose: Purpose, instruction: str, prompt: Sequence[Any]
) -> object:
    """Return ``extra``, the extra information of a row, with three keys.

    Reward functions read the instruction, and the purpose of the rollout unless that is training.
    The prompt of the dataset is for :func:`restore_prompt`.

    >>> with_context({"index": 3}, "verify", "Look first.", [])
    {'index': 3, 'evoprompt_instruction': 'Look first.', 'evoprompt_prompt': [], \
'evoprompt_purpose': 'verify'}
    """
    if not isinstance(extra, Mapping):
        return extra
    purpose_field = {} if purpose == "train" else {_PURPOSE: purpose}
    return {**extra, _INSTRUCTION: instruction, _OWN_PROMPT: prompt, **purpose_field}


def of_rollout(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of one rollout of a row: with the prompt of its own candidate.

    >>> prompts = [("Look.", ["Look.", "Why?"]), ("Think.", ["Think.", "Why?"])]
    >>> row = {"raw_prompt": ["Look.", "Why?"], "evoprompt_prompts": prompts, "session_id": 1}
    >>> of_rollout({**row, "extra_info": {"index": 3}})
    {'raw_prompt': ['Think.', 'Why?'], 'session_id': 1, 'extra_info': {'index': 3, \
'evoprompt_instruction': 'Think.'}}
    """
    prompts = row.get(PROMPTS)
    if prompts is None:
        return dict(row)
    instruction, prompt = prompts[row["session_id"]]
    columns = {name: value for name, value in row.items() if name != PROMPTS} | {PROMPT: prompt}
    if isinstance(row.get(EXTRA), Mapping):
        columns[EXTRA] = {**row[EXTRA], _INSTRUCTION: instruction}
    return columns


def restore_prompt(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a rollout with the prompt of the dataset, for what scores it.

    >>> extra = with_context({}, "train", "Look first.", ["Why?"])
    >>> restore_prompt({"raw_prompt": ["Look first.", "Why?"], "extra_info": extra})
    {'raw_prompt': ['Why?'], 'extra_info': {'evoprompt_instruction': 'Look first.'}}
    """
    extra = row.get(EXTRA)
    if not isinstance(extra, Mapping) or _OWN_PROMPT not in extra:
        return dict(row)
    others = {name: value for name, value in extra.items() if name != _OWN_PROMPT}
    return {**row, PROMPT: extra[_OWN_PROMPT], EXTRA: others}
