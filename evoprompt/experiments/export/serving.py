"""The command that serves an export with vLLM."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from evoprompt.errors import InputError
from evoprompt.experiments.export.recipe import Recipe

_PARSERS = (  # what a chat template writes around a call, and vLLM's name of what reads it
    ("[TOOL_CALLS]", "mistral"),
    ("<|python_tag|>", "llama3_json"),
    ("<function=", "qwen3_coder"),
    ("<|tool▁calls▁begin|>", "deepseek_v3"),
    ("functools", "phi4_mini_json"),
    ("<tool_call>", "hermes"),
)


def tool_parser(template: str) -> str | None:
    """VLLM's name of the parser for the calls that ``template`` writes; None if none is known."""
    return next((name for mark, name in _PARSERS if mark in template), None)


def serve_line(folder: Path, recipe: Recipe, shown: Path = Path()) -> str:
    """``vllm serve`` with everything that this export needs; the model's name is ``evoprompt``.

    An adapter is served over its base model.

    Args:
        folder: of the export.
        recipe: how the policy was asked.
        shown: the folder as the command names it; by default it is run in there.
    """
    words = ["vllm", "serve"]
    adapter = folder / "adapter_config.json"
    if adapter.exists():
        settings = _object(adapter)
        rank = max([settings.get("r", 0), *(settings.get("rank_pattern") or {}).values()])
        allowed = next((one for one in (8, 16, 32, 64, 128, 256, 320, 512) if one >= rank), rank)
        base = str(settings.get("base_model_name_or_path") or recipe.base)
        words += [base, "--enable-lora", "--max-lora-rank", str(allowed)]
        words += ["--lora-modules", f"evoprompt={shown}", "--tokenizer", str(shown)]
    else:
        words += [str(shown), "--served-model-name", "evoprompt"]
    words += ["--chat-template", str(shown / "chat_template.jinja")]
    parts = any(
        (folder / name).exists() for name in ("processor_config.json", "preprocessor_config.json")
    )
    words += ["--chat-template-content-format", "openai" if parts else "string"]
    if recipe.tools:
        parser = tool_parser(recipe.template or "")
        words += ["--enable-auto-tool-choice", "--tool-call-parser", parser] if parser else []
    return shlex.join(words)


def _object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}); required: the file as saved") from error
    return found if isinstance(found, dict) else {}
