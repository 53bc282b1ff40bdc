"""Whether instructions reached the policy, looked at once in what the trainer trains on.

An agent loop of somebody's own may build its prompt from another column than ``raw_prompt``, or
leave the system message out. Everything would then go on as if instructions evolved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evoprompt.errors import AttachError
from evoprompt.prompts import Prompt
from evoprompt.types import Assignment
from evoprompt_verl.columns import PROMPT
from evoprompt_verl.host import HostBatch, HostQueue, HostTokenizer
from evoprompt_verl.outcomes import session_of
from evoprompt_verl.prompts import PromptWriter

_GROUPS = 8
"""Groups whose prompts are looked at."""

_PROMPTS = "prompts"


def missing(
    batch: HostBatch,
    asked: Mapping[str, Assignment],
    queue: HostQueue,
    tokenizer: HostTokenizer,
    writer: PromptWriter,
) -> str:
    """What to tell if some of the prompts in ``batch`` lack their instruction; empty if none does.

    Args:
        batch: what the trainer is about to train on.
        asked: assignments by uid of their prompt.
        queue: holds the prompts as the policy saw them.
        tokenizer: the run's.
        writer: renders prompts.

    Raises:
        AttachError: no prompt that was looked at holds its instruction.
    """
    first: dict[str, str] = {}
    for key in batch.keys:
        (uid, _), output = session_of(key)
        if output == 0 and uid in asked:
            first.setdefault(uid, key)
    keys = list(first.values())[:_GROUPS]
    if not keys:
        return ""
    seen = queue.kv_batch_get(keys, batch.partition_id, [_PROMPTS])[_PROMPTS].unbind(0)
    lacking = [
        assignment
        for assignment, ids in zip((asked[uid] for uid in first), seen, strict=False)
        if not _holds(ids.tolist(), assignment, tokenizer, writer)
    ]
    if not lacking:
        return ""
    candidate = lacking[0].candidate.id
    found = f"{len(lacking)} of {len(keys)} prompts of the first step do not hold their instruction"
    remedy = (
        f"such as that of candidate {candidate}; required: agent loops that render the messages in "
        f"the column {PROMPT!r} as they are; mend the loop, or give evoprompt.placement another "
        "value where it reads the user's message alone"
    )
    if len(lacking) == len(keys):
        raise AttachError(f"{found}, {remedy}")
    return f"{found}, {remedy}"


def _holds(
    ids: Sequence[int], assignment: Assignment, tokenizer: HostTokenizer, writer: PromptWriter
) -> bool:
    """Whether a prompt holds every message that placing the instruction has added or changed."""
    messages: Any = assignment.question.row[PROMPT]
    seen = _squeezed(tokenizer.decode(list(ids), skip_special_tokens=False))
    return all(
        _squeezed(text) in seen or _squeezed(_through(tokenizer, text)) in seen
        for text in _texts(writer.write(messages, assignment.candidate))
        if text not in _texts(messages)
    )


def _texts(prompt: Prompt) -> list[str]:
    if isinstance(prompt, str):
        return [prompt]
    texts: list[str] = []
    for message in prompt:
        content = message.get("content")
        parts: list[dict[str, Any]] = content if isinstance(content, list) else [{"text": content}]
        texts += [part["text"] for part in parts if isinstance(part.get("text"), str)]
    return texts


def _through(tokenizer: HostTokenizer, text: str) -> str:
    """``text`` as the tokenizer leaves it: some fold case, or know not every character."""
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return tokenizer.decode(ids, skip_special_tokens=False)


def _squeezed(text: str) -> str:
    return "".join(text.split())
