"""What this machine has of what a training needs: GPUs, models, libraries, memory, disk.

Nothing is loaded, downloaded or written; a missing thing comes with the command that brings it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from evoprompt.agents.tasks import Need
from evoprompt.support.errors import InputError

GIB = 2**30

DISK = "disk"
"""Subject of the need of room, under a host that of one trial's checkpoints and policy."""

TRAINED_BYTES = 16
"""Bytes a weight of a trained model takes: itself, its gradient and Adam's two moments, 4 each."""

FLASH_ATTENTION = "flash-attn==2.8.3"
"""As veRL 0.9.1 pins it for CUDA 13 and torch 2.11; there is no wheel."""

_CUDA, _DRIVER = 13, 580
"""From this CUDA on, which the constraints pin, the driver has to be as new."""

_VOCABULARIES = {"gemma-3": 262_144, "llama-3": 128_256, "smollm2": 49_152}
_QWEN_VOCABULARY = 151_936
"""Tokens that a model knows, by a part of its name; others are taken for Qwen's."""


def need_of(subject: str, error: InputError) -> Need:
    """The need that an error tells of."""
    finding, _, remedy = str(error).partition("; required: ")
    return Need(subject, finding, remedy)


class Devices(NamedTuple):
    """GPUs of this machine.

    Attributes:
        listed: name, memory and driver of each, by the driver; empty without one.
        problem: why torch cannot use them; empty if it can, or is not installed.
        remedy: what to do about it.
    """

    listed: tuple[str, ...]
    problem: str = ""
    remedy: str = ""


def devices() -> Devices:
    """The GPUs that the driver lists, and whether torch can use them."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return Devices(())
    told = "--query-gpu=name,memory.total,memory.free,driver_version"
    query = [program, told, "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, check=False, timeout=20)
    listed = tuple(answer.stdout.splitlines()) if answer.returncode == 0 else ()
    if not listed or find_spec("torch") is None:
        return Devices(listed)
    import torch

    described, cuda = "; ".join(listed), torch.version.cuda
    driver = listed[0].rpartition(", ")[2]
    if cuda is None:
        text = f"{described}, but torch {torch.__version__} cannot use it"
        return Devices(listed, text, "install a CUDA build of torch, see pytorch.org")
    if int(cuda.partition(".")[0]) >= _CUDA and int(driver.partition(".")[0]) < _DRIVER:
        text = f"{described}: driver {driver} is too old for CUDA {cuda}"
        return Devices(listed, text, f"install a driver of {_DRIVER} or newer")
    if not torch.cuda.is_available():
        text = f"{described}, but torch.cuda.is_available() is false"
        return Devices(
            listed, text, 'see what python -c "import torch; torch.zeros(1).cuda()" says'
        )
    return Devices(listed)


def flash_attention(otherwise: str) -> Need:
    """The library, and what builds it.

    Args:
        otherwise: how to do without.
    """
    install = f"pip install {FLASH_ATTENTION} --no-build-isolation"
    found = package("flash_attn", f"{install}, or {otherwise}")
    if found.missing and shutil.which("nvcc") is None:
        text = "not installed, and nvcc, which builds it, is not here"
        return Need("flash_attn", text, f"install the toolkit of CUDA 13, then {found.remedy}")
    return found


def gpus(count: int, gib: float | None) -> Need:
    """``count`` CUDA devices with ``gib`` GiB of memory each; None where that is not known."""
    import torch

    there = devices()
    if there.problem:
        return Need("GPU", there.problem, there.remedy)
    wanted = f"{count} CUDA device(s)" + (f" with {gib:,.0f} GiB each" if gib is not None else "")
    found = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]
    told = ", ".join(f"{one.name} with {one.total_memory / GIB:.0f} GiB" for one in found)
    remedy = f"use a machine with {wanted}, or a smaller configuration"
    if len(found) < count:
        return Need("GPU", f"{wanted} needed, found {told or 'none'}", remedy)
    if gib is not None and min(one.total_memory for one in found[:count]) < gib * GIB:
        smaller = "lower host.micro_batch or the token limits of the task, or " + remedy
        return Need("GPU memory", f"{wanted} needed, found {told}", smaller)
    return Need("GPU", told)


def package(module: str, install: str) -> Need:
    """A library."""
    if find_spec(module) is None:
        return Need(module, "not installed", install)
    return Need(module, "installed")


def model(name: str) -> Need:
    """The files of a language model, in a folder or in the cache of the Hugging Face hub."""
    folder = model_folder(name)
    if folder is None and (name.count("/") > 1 or name.startswith((".", "/", "~"))):
        remedy = "name the folder of a model, or a model of the Hugging Face hub"
        return Need("model", f"{name} is no folder with a config.json", remedy)
    if folder is None:
        return Need("model", f"{name} is neither a folder nor downloaded", f"hf download {name}")
    if not any(folder.glob("*.safetensors")):
        return Need("model", f"{folder} holds no *.safetensors", f"hf download {name}")
    return Need("model", f"{name} is here")


def model_folder(name: str) -> Path | None:
    """Where the files of a language model are, None where they are not here."""
    if (Path(name) / "config.json").is_file():
        return Path(name)
    if find_spec("huggingface_hub") is None:
        return None  # then nothing was downloaded by it
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(name, "config.json")
    except HFValidationError:
        return None
    return Path(found).parent if isinstance(found, str) else None


@dataclass(frozen=True, slots=True)
class ModelSize:
    """How large a language model is.

    Attributes:
        parameters: number of weights.
        vocabulary: number of tokens it knows.
        exact: whether this is from the model's own files rather than from its name.
        width: layers times the numbers that each passes on; 0 where it is not known.
        cache_bytes: of the keys and values of a token, in half precision; 0 likewise.
    """

    parameters: int
    vocabulary: int
    exact: bool
    width: int = 0
    cache_bytes: int = 0

    def forward(self, tokens: float) -> float:
        """Operations that the model needs to read a token of so many, a mean over them."""
        return 2 * self.parameters + 2 * self.width * tokens


def model_size(name: str) -> ModelSize | None:
    """The size of a language model, from its files or else its name; None if neither tells."""
    config = model_config(name)
    if config is not None:
        import torch
        from transformers import AutoModelForCausalLM

        with torch.device("meta"):
            empty = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
        text = config.get_text_config()
        heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
        each = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        layers = text.num_hidden_layers
        return ModelSize(
            empty.num_parameters(),
            text.vocab_size,
            True,
            layers * text.hidden_size,
            2 * 2 * layers * heads * each,
        )
    told = re.search(r"(\d+(?:\.\d+)?)([bm])(?![a-z])", name.lower())
    if told is None:
        return None
    known = (size for part, size in _VOCABULARIES.items() if part in name.lower())
    millions = 1e9 if told[2] == "b" else 1e6
    return ModelSize(int(float(told[1]) * millions), next(known, _QWEN_VOCABULARY), False)


def ties_embeddings(name: str) -> bool:
    """Whether a model's input and output embeddings are one; True where its files do not tell."""
    config = model_config(name)
    return config is None or bool(config.tie_word_embeddings)


def positions(name: str) -> int | None:
    """Tokens that a language model can attend to; None where its files do not tell."""
    config = model_config(name)
    text = None if config is None else config.get_text_config()
    return getattr(text, "max_position_embeddings", None)


def model_config(name: str) -> Any | None:
    """The configuration of a language model by ``transformers``; None where it is not here."""
    folder = model_folder(name)
    if folder is None:
        return None
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(folder)


def memory(gib: float) -> Need:
    """A machine with ``gib`` GiB of memory."""
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB
    text = f"{gib:,.0f} GiB needed while models load, this machine has {there:,.0f} GiB"
    return Need("memory", text, "use a machine with more memory" if there < gib else "")


def disk(folder: Path, gib: float, option: str = "--output") -> Need:
    """Room for ``gib`` GiB where ``folder``, which ``option`` names, is or will be."""
    there = next(path for path in _upwards(folder) if path.is_dir())
    free = shutil.disk_usage(there).free / GIB
    text = f"{gib:,.1f} GiB needed, {free:,.1f} GiB free"
    return Need(DISK, text, f"choose another {option}" if free < gib else "")


def _upwards(path: Path) -> Iterator[Path]:
    path = path.absolute()
    yield path
    yield from path.parents
