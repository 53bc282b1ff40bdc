"""What the policy is shown after a search."""

from __future__ import annotations

from transformers import PreTrainedTokenizerBase

from evoprompt_search_qa import protocol
from evoprompt_search_qa.open.tool import Passages


class Observer:
    """Turns passages into what the policy is shown, and cuts them where they are too long.

    Args:
        tokenizer: of the policy.
        tokens: most tokens of an observation, tags included.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, tokens: int) -> None:
        self._tokenizer = tokenizer
        self._open = self._encode(f"\n\n{protocol.INFORMATION}\n")
        self._close = self._encode(f"\n{protocol.END_INFORMATION}\n\n")
        self._room = max(0, tokens - len(self._open) - len(self._close))

    def __call__(self, passages: Passages) -> tuple[str, list[int]]:
        """What is shown after a search, as text and as tokens."""
        text = protocol.numbered(passages)
        body = self._encode(text)
        if len(body) > self._room:
            body = body[: self._room]
            text = str(self._tokenizer.decode(body))
        shown = f"\n\n{protocol.INFORMATION}\n{text}\n{protocol.END_INFORMATION}\n\n"
        return shown, [*self._open, *body, *self._close]

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids
