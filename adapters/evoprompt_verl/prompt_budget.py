"""Check that instructions fit, from the files of the run, before any process starts.

Three things may leave no room: ``data.max_prompt_length``, the positions of the model, and a chat
template that does not take the message an instruction is put into.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from evoprompt.agents.tokenizer import positions_of
from evoprompt.hosting.prompts import Render
from evoprompt.support.errors import InputError
from evoprompt.support.text import format_error
from evoprompt_verl.dataset import tools_of
from evoprompt_verl.prompts import Messages, VerlPrompts

_MODEL = "a model folder or hub name; check actor_rollout_ref.model.path"
_TOOLS = (
    "files that every worker can load; check tool_config_path and function_tool_path under "
    "actor_rollout_ref.rollout.multi_turn"
)


@contextmanager
def _loading(name: str, required: str) -> Iterator[None]:
    """Raise a clear error if ``name`` cannot be loaded in the body.

    Raises:
        InputError: a file, a library or a module of the user raised an error.
    """
    try:
        yield
    except Exception as error:
        message = f"{name} cannot be loaded ({format_error(error)}); required: {required}"
        raise InputError(message) from error


def check_room(
    config: DictConfig,
    instructions: Iterable[str],
    render: Render,
    questions: Sequence[Messages] | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Check that the longest training question fits under every instruction.

    Args:
        config: configuration of the run.
        instructions: the first candidates.
        render: places an instruction in a prompt.
        questions: prompts of the training data; by default those in local parquet files, as other
            sources are measured when training starts.
        tools: schemas that every prompt shows; by default those of the run's agent loops.

    Raises:
        InputError: it does not fit, or the tokenizer, its chat template, the configuration of the
            model, a file of questions or a tool cannot be used.
    """
    _check_positions(config)
    tokenizer = tokenizer_of(config)
    if tools is None:
        with _loading("the tools of the agent loops", _TOOLS):
            tools = tools_of(config)
    prompts = _questions(config) if questions is None else questions
    writer = VerlPrompts(config, tokenizer, render, prompts, tools)
    empty: Messages = [{"role": "user", "content": ""}]
    writer.require_room_for(instructions, [empty, *prompts])


def _check_positions(config: DictConfig) -> None:
    """Check that the longest prompt leaves the model a position for a response."""
    longest, name = config.data.max_prompt_length, "data.max_prompt_length"
    contexts = {
        "the model": _positions(config),
        "actor_rollout_ref.rollout.max_model_len": config.actor_rollout_ref.rollout.max_model_len,
    }
    known_contexts = {source: tokens for source, tokens in contexts.items() if tokens is not None}
    source = min(known_contexts, key=lambda source: known_contexts[source], default=None)
    if source is not None and longest >= known_contexts[source]:
        raise InputError(
            f"{name} is {longest}, but {source} allows {known_contexts[source]} tokens, prompt and "
            "response together: an instruction could leave no room for an answer; required: less; "
            f"lower {name} or choose a model with a longer context"
        )


def _positions(config: DictConfig) -> int | None:
    """Return the length of the model's context in tokens; None if unknown."""
    from transformers import AutoConfig
    from verl.utils.fs import copy_to_local

    model = config.actor_rollout_ref.model
    changed = (model.get("override_config") or {}).get("max_position_embeddings")
    if changed is not None:
        return int(changed)
    path = model.get("hf_config_path") or model.path
    with _loading(f"the configuration of the model {path}", _MODEL):
        model_config = AutoConfig.from_pretrained(
            copy_to_local(path, use_shm=model.get("use_shm", False)),
            trust_remote_code=model.get("trust_remote_code", False),
        )
    for part in (model_config, getattr(model_config, "text_config", None)):
        positions = positions_of(part)
        if positions is not None:
            return positions
    return None


def tokenizer_of(config: DictConfig) -> Any:
    """Return the tokenizer of a run, with its chat template.

    Raises:
        InputError: it cannot be loaded.
    """
    from verl.utils import hf_tokenizer
    from verl.utils.fs import copy_to_local

    model = config.actor_rollout_ref.model
    path = model.get("tokenizer_path") or model.path
    with _loading(f"the tokenizer of {path}", _MODEL):
        local = copy_to_local(path, use_shm=model.get("use_shm", False))
        tokenizer = hf_tokenizer(local, trust_remote_code=model.get("trust_remote_code", False))
    if model.get("custom_chat_template"):
        tokenizer.chat_template = model.custom_chat_template
    return tokenizer


def _questions(config: DictConfig) -> list[Sequence[Mapping[str, Any]]]:
    """Return the prompts in local parquet files, for training and validation: text alone.

    Raises:
        InputError: a file cannot be read, or its questions have images, videos or sound.
    """
    from pyarrow import parquet

    key = config.data.get("prompt_key", "prompt")
    media = {config.data.get(f"{name}_key", f"{name}s") for name in ("image", "video", "audio")}
    prompts: list[Any] = []
    for path in _local_files(config):
        with _loading(str(path), "a parquet file; check data.train_files and data.val_files"):
            names = {key, *media} & set(parquet.read_schema(path).names)
            table = parquet.read_table(path, columns=sorted(names))
        for name in names & media:
            if any(table[name].to_pylist()):
                raise InputError(
                    f"{path} has media in the column {name!r}; required: questions of text alone, "
                    "for the engine keeps questions as JSON to verify new instructions on them; "
                    "train on a text dataset, or without evoprompt"
                )
        if key in names and str(path) in _names(config.data.train_files):
            prompts += table[key].to_pylist()
    return [prompt for prompt in prompts if isinstance(prompt, list)]


def _local_files(config: DictConfig) -> Iterator[Path]:
    """Return the parquet files of questions on this machine."""
    for name in (*_names(config.data.train_files), *_names(config.data.val_files)):
        if name.endswith(".parquet") and Path(name).is_file():
            yield Path(name)


def _names(files: Any) -> list[str]:
    return [files] if isinstance(files, str) else [str(name) for name in files or ()]
