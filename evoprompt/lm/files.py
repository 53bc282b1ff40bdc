"""A writer who is a person, or a chat window: requests wait as files, and answers are files."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from evoprompt.lm.recording import read_used
from evoprompt.support.errors import InputError, warn
from evoprompt.support.storage import unwritable, write_whole

REQUEST, ANSWER = ".request.md", ".answer.md"

_LOOKS_EVERY = 0.5  # seconds


class AnswerFiles:
    """A function of a prompt whose answers somebody writes into a folder.

    The first request waits in ``1.request.md``, and whoever answers writes ``1.answer.md`` beside
    it. An answer is taken when it has more than white space and did not change between two looks.
    A request that nobody answered in time keeps its file, and so does an answer that comes late:
    an equal request gets it.

    Args:
        folder: of the files; made with the first request, and of one process at a time.

    Raises:
        InputError: the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        if why := unwritable(folder, folder=True):
            raise InputError(
                f"lm.model names the folder {folder} ({why}); required: one that can be written; "
                "name another after files/"
            )
        self._folder = folder
        self._used: set[int] = set()
        self._open: set[int] = set()

    async def __call__(self, prompt: str) -> str:
        """What was written in answer to ``prompt``; waits for it."""
        number = self._ask(prompt)
        self._open.add(number)
        file = self._folder / f"{number}{ANSWER}"
        try:
            before = ""
            while True:
                text = file.read_text("utf-8", "replace") if file.is_file() else ""
                if text.strip() and text == before:
                    self._used.add(number)
                    return text
                before = text
                await asyncio.sleep(_LOOKS_EVERY)
        finally:
            self._open.remove(number)

    def _ask(self, prompt: str) -> int:
        """The number of the request, which is written unless it waits already."""
        self._folder.mkdir(parents=True, exist_ok=True)
        there = {
            int(name): file
            for file in self._folder.glob("*.md")
            if (name := file.name.partition(".")[0]).isdecimal()
        }
        for number in sorted(there.keys() - self._used - self._open):
            request = self._folder / f"{number}{REQUEST}"
            if request.is_file() and request.read_text("utf-8") == prompt:
                break
        else:
            number = max(there, default=0) + 1
            write_whole(self._folder / f"{number}{REQUEST}", prompt)
        if not (self._folder / f"{number}{ANSWER}").is_file():
            waits, answer = self._folder / f"{number}{REQUEST}", f"{number}{ANSWER}"
            warn(f"{waits} waits for an answer; write it to {answer} beside it")
        return number

    def state_dict(self) -> dict[str, JsonValue]:
        """Which answers were used."""
        used: list[JsonValue] = [*sorted(self._used)]
        return {"used": used}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Goes on after the answers that ``state`` says were used."""
        self._used = read_used(state, "answers in files")
