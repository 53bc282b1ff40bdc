"""Model card of an export: its origin, its instruction, and the command that serves it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from pydantic import JsonValue

from evoprompt.agents.recipe import Recipe
from evoprompt.support import yamlfile

_PARSERS = (  # text of a chat template around a call, and vLLM's name of the parser
    ("[TOOL_CALLS]", "mistral"),
    ("<|python_tag|>", "llama3_json"),
    ("<function=", "qwen3_coder"),
    ("<|tool▁calls▁begin|>", "deepseek_v3"),
    ("functools", "phi4_mini_json"),
    ("<tool_call>", "hermes"),
)

_PLACEMENTS = {
    "append": "in the system message, after the caller's own where there is one",
    "replace": "as the system message, instead of the caller's own",
    "user": "before the first user message",
}


def card(folder: Path, recipe: Recipe) -> str:
    """Return the text of ``README.md``."""
    head: dict[str, JsonValue] = {"library_name": "transformers", "tags": ["evoprompt", "grpo"]}
    base, is_public = _name_of_model(recipe.base)
    if is_public:
        head["base_model"] = base
    failures, rollouts = recipe.failures, f"{recipe.rollouts:,}"
    if failures.of:
        without = f"{failures.failed:,} have no reward" if failures.failed else "all have a reward"
        rollouts += f"; of {failures.of:,} in training, {without}"
    parts = [
        f"---\n{yamlfile.dump(head)}---",
        "# A policy and its instruction",
        "Trained by reinforcement learning while its instruction evolved beside it (evoprompt).",
        f"| | |\n|---|---|\n| base model | {base or 'not known'} |\n"
        f"| trainer | {recipe.trainer or 'not known'} |\n"
        f"| data | {'the task ' + recipe.task if recipe.task else 'the dataset of the trainer'} |\n"
        f"| steps | {recipe.step:,} |\n| rollouts | {rollouts} |",
        f"## Instruction\n\nCandidate {recipe.candidate}. `chat_template.jinja` places it "
        f"{_PLACEMENTS[recipe.placement]}: ask with the user's question alone.\n\n"
        f"{_fenced(recipe.best.instruction)}\n\n{recipe.statement}",
        f"## Serve\n\nIn this folder:\n\n{_fenced(serve_line(folder, recipe))}",
    ]
    if recipe.tools:
        parts.append(_tools(recipe))
    return "\n\n".join(parts) + "\n"


def _name_of_model(base: str) -> tuple[str, bool]:
    """Return the name of a model, and whether it is one that other machines know.

    A path means nothing there: of a folder the name is its last part, and of a snapshot in a cache
    of the Hugging Face hub the name on the hub.
    """
    if not base:  # as a path it would be the current folder
        return "", False
    if not (base.startswith((".", "~", "/")) or Path(base).is_dir()):
        return base, True
    folder = Path(base).resolve()
    if folder.parent.name == "snapshots" and folder.parts[-3].startswith("models--"):
        return folder.parts[-3].removeprefix("models--").replace("--", "/", 1), True
    return folder.name, False


def _tools(recipe: Recipe) -> str:
    names = ", ".join(str(schema["function"]["name"]) for schema in recipe.schemas)
    text = (
        f"## Tools\n\n{names}. `tools.json` holds their schemas of the training; the chat template "
        "uses them if a request brings no tools. Send it as `tools` nevertheless: vLLM reads calls "
        "only in answers to requests that do."
    )
    if tool_parser(recipe.template or "") is None:
        text += " No parser of vLLM is known for the calls of this chat template: none is named."
    return text


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}text\n{text}\n{fence}"


def tool_parser(template: str) -> str | None:
    """Return vLLM's name of the parser for the calls that ``template`` writes; None if unknown."""
    return next((name for mark, name in _PARSERS if mark in template), None)


def serve_line(folder: Path, recipe: Recipe, path: Path = Path()) -> str:
    """Return a ``vllm serve`` command with all settings of the export; the model is ``evoprompt``.

    An adapter is served over its base model.

    Args:
        folder: of the export.
        recipe: of the policy's prompts.
        path: the folder in the command; by default the command runs in it.
    """
    words = ["vllm", "serve"]
    adapter = folder / "adapter_config.json"
    if adapter.exists():
        settings = json.loads(adapter.read_text(encoding="utf-8"))
        rank = max([settings.get("r", 0), *(settings.get("rank_pattern") or {}).values()])
        allowed = next(
            (supported for supported in (8, 16, 32, 64, 128, 256, 320, 512) if supported >= rank),
            rank,
        )
        base = str(settings.get("base_model_name_or_path") or recipe.base)
        words += [base, "--enable-lora", "--max-lora-rank", str(allowed)]
        words += ["--lora-modules", f"evoprompt={path}", "--tokenizer", str(path)]
    else:
        words += [str(path), "--served-model-name", "evoprompt"]
    words += ["--chat-template", str(path / "chat_template.jinja")]
    parts = any(
        (folder / name).exists() for name in ("processor_config.json", "preprocessor_config.json")
    )
    words += ["--chat-template-content-format", "openai" if parts else "string"]
    if recipe.tools:
        parser = tool_parser(recipe.template or "")
        words += ["--enable-auto-tool-choice", "--tool-call-parser", parser] if parser else []
    return shlex.join(words)
