"""The chat templates that TRL bundles, on a tokenizer whose tokens are characters.

``python tests/contracts/chat_templates.py docs/templates.md`` writes the table of what is played.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trl
from bytewise import END, bytewise
from transformers import PreTrainedTokenizerFast

from evoprompt.agents import (
    Action,
    Agent,
    Episode,
    Limits,
    Sampling,
    ToolCallProtocol,
    Tools,
    encode,
    play,
)
from evoprompt.agents.thoughts import marks_of
from evoprompt.support.errors import InputError

FOLDER = Path(trl.__file__).parent / "chat_templates"
NAMES = sorted(path.stem for path in FOLDER.glob("*.jinja"))
VALUE = "left-4b1f"
RESULT = ' He said "yes".\n{d: 5} \\ \u00fc '
ASKED: list[Any] = [{"role": "user", "content": "Where?"}]
LEFT: dict[str, object] = {"far": 3, "at": VALUE}

FORMS = {
    "ObjectForm": "a JSON object",
    "NamedForm": "a name and JSON",
    "LooseForm": "a name and JSON without quotes",
    "FieldForm": "fields between tags",
    "PythonForm": "Python",
}
HEAD = """# Chat templates

The table lists what [an agent](agents.md) supports of each chat template that TRL {version}
bundles. `python tests/contracts/chat_templates.py docs/templates.md` computes it from the
templates, and a test compares it. A template with the suffix `_training` behaves like the one
without it.

- **One call**: the form of a tool call. *Refused*: the template does not render tools, so a task
  with tools needs `TagProtocol`.
- **Parallel calls**: whether an action may contain several calls. With *one at a time*, the policy
  reads an error if it makes more.
- **Result**: whether the policy reads tool results token by token as the template writes them.
- **Thought**: the marks of a thought; "begun" if the prompt ends with the first mark. For templates
  without marks the agent reads `<think>`, and marks at the beginning of an action, such as Kimi's.
- **System role**: whether the system message can contain an instruction. If not, the error names
  the remedy, the placement `user`.

With `llama3_1`, `qwen2_5`, `qwen3` (with and without thinking), `qwen3_8`, `gemma3` and
`gemma4` a test trains, evaluates, exports and serves a policy, and compares the tokens of its
prompts: they are the same everywhere. The one exception is `qwen3` without thinking, in chat
messages: it drops its own empty thought from the history, so its later turns are the same only
where the server receives tokens.

| template | one call | parallel calls | result | thought | system role |
|---|---|---|---|---|---|
"""


def tokenizer_of(name: str) -> PreTrainedTokenizerFast:
    """A tokenizer with the template ``name``."""
    made = bytewise((FOLDER / f"{name}.jinja").read_text(encoding="utf-8"))
    made.bos_token = "<|im_start|>"
    return made


def look(at: str, far: int = 0) -> str:
    """Looks somewhere."""
    return RESULT


TOOLS = Tools([look], seconds=None)


class Script:
    """Says what it is told to, and keeps the contexts that it was shown."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, *said: str) -> None:
        self.contexts: list[list[int]] = []
        self._tokenizer = tokenizer
        self._said = iter(said)

    def __call__(
        self, episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool
    ) -> list[Action]:
        self.contexts += [episode.context for episode in episodes]
        ids = self._tokenizer.encode(next(self._said), add_special_tokens=False)
        return [Action(ids) for _ in episodes]


def written(
    tokenizer: PreTrainedTokenizerFast, *arguments: dict[str, object], results: int = 0
) -> str:
    """Calls, and results perhaps, as the template writes them after the question."""
    shown = [
        {"role": "tool", "name": "look", "tool_call_id": f"call{at:05d}", "content": RESULT}
        for at in range(results)
    ]
    schemas: list[Any] = [*TOOLS.schemas]
    for text in (False, True):
        messages = [*ASKED, _calling(*arguments, text=text), *shown]
        try:
            found = tokenizer.apply_chat_template(
                messages, schemas, tokenize=False, add_generation_prompt=bool(results)
            )
        except TypeError:  # DeepSeek's wants arguments as text
            continue
        return str(found)
    raise AssertionError("neither way is taken")


def action_of(tokenizer: PreTrainedTokenizerFast, *arguments: dict[str, object]) -> str:
    """What a model says to make calls: from the template's first mark of one on."""
    text = written(tokenizer, *arguments)
    schemas: list[Any] = [*TOOLS.schemas]
    prompt = str(
        tokenizer.apply_chat_template(ASKED, schemas, tokenize=False, add_generation_prompt=True)
    )
    said = text[len(prompt) :] if text.startswith(prompt) else text.rpartition("Where?")[2]
    return marks_of(tokenizer).part(said).remainder.rstrip("\n")


def called(tokenizer: PreTrainedTokenizerFast) -> tuple[Episode, Script]:
    """An episode that looks and then answers ``There.``."""
    agent = Agent(ToolCallProtocol(tokenizer), tokenizer, Limits(2, 2_000, 2_000))
    prompt = encode(tokenizer, ASKED, TOOLS.schemas)
    marks = marks_of(tokenizer)
    closing = marks.closing if marks.is_open_after(str(tokenizer.decode(prompt))) else ""
    script = Script(tokenizer, closing + action_of(tokenizer, LEFT), f"{closing}There.{END}")
    (episode,) = play([agent.play(prompt)], script, TOOLS)
    return episode, script


def shows_as_written(tokenizer: PreTrainedTokenizerFast) -> bool:
    """Whether what follows a call is what the template writes there."""
    whole = written(tokenizer, LEFT, results=1)
    shown = str(tokenizer.decode(called(tokenizer)[1].contexts[1]))
    return _after_call(shown) == _after_call(whole)


def row(name: str) -> str:
    """The line of a template in the table."""
    tokenizer = tokenizer_of(name)
    marks = marks_of(tokenizer)
    prompt = str(tokenizer.decode(encode(tokenizer, ASKED)))
    writes = marks.opening in (tokenizer.chat_template or "")
    thought = f"`{marks.opening}` `{marks.closing}`" if writes else ""
    thought += ", begun" if writes and marks.is_open_after(prompt) else ""
    cells = [*_calls(tokenizer), thought.replace("|", "\\|"), _system(tokenizer)]
    return f"| `{name}` | {' | '.join(cells)} |\n"


def table() -> str:
    """The document."""
    version = ".".join(trl.__version__.split(".")[:2])
    rows = [row(name) for name in NAMES if not name.endswith("_training")]
    return HEAD.replace("{version}", version) + "".join(rows)


def _calls(tokenizer: PreTrainedTokenizerFast) -> list[str]:
    try:
        protocol = ToolCallProtocol(tokenizer)
    except InputError:
        return ["refused", "", ""]
    form = FORMS[type(protocol._form).__name__]
    try:
        said = action_of(tokenizer, {"at": "a"}, {"at": "b"})
    except Exception:  # the template's own
        said = ""
    several = len(protocol.read(said).calls) == 2
    return [
        form,
        "yes" if several else "one at a time",
        "yes" if shows_as_written(tokenizer) else "no",
    ]


def _system(tokenizer: PreTrainedTokenizerFast) -> str:
    for content in ("Be brief.", [{"type": "text", "text": "Be brief."}]):  # models that see
        try:
            encode(tokenizer, [{"role": "system", "content": content}, *ASKED])
        except InputError:
            continue
        return "yes"
    return "no"


def _after_call(text: str) -> str:
    return text.rpartition(VALUE)[2].replace(f"\n{END}", END)


def _calling(*arguments: dict[str, object], text: bool) -> dict[str, Any]:
    calls = [
        {
            "type": "function",
            "id": f"call{number:05d}",
            "function": {"name": "look", "arguments": json.dumps(one) if text else one},
        }
        for number, one in enumerate(arguments)
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(table(), encoding="utf-8")
