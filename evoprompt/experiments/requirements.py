"""Requirements of a training on this machine: GPUs, models, libraries, memory, disk.

Nothing is loaded, downloaded or written; a missing requirement comes with the command that meets
it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from evoprompt.agents.tasks import Need
from evoprompt.agents.tokenizer import positions_of
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
"""Vocabulary sizes, by a part of the model's name; other models count as Qwen's."""


def need_of(subject: str, error: InputError) -> Need:
    """Return the need that an error describes."""
    finding, _, remedy = str(error).partition("; required: ")
    return Need(subject, finding, remedy)


class Devices(NamedTuple):
    """GPUs of this machine.

    Attributes:
        listed: name, memory and driver of each, by the driver; empty without one.
        problem: reason why torch cannot use them; empty if it can, or is not installed.
        remedy: the remedy.
    """

    listed: tuple[str, ...]
    problem: str = ""
    remedy: str = ""


def devices() -> Devices:
    """Return the GPUs that the driver lists, and whether torch can use them."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return Devices(())
    fields = "--query-gpu=name,memory.total,memory.free,driver_version"
    query = [program, fields, "--format=csv,noheader"]
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
    """Return the need of the library and of its compiler.

    Args:
        otherwise: the way to do without it.
    """
    install = f"pip install {FLASH_ATTENTION} --no-build-isolation"
    need = package("flash_attn", f"{install}, or {otherwise}")
    if need.missing and shutil.which("nvcc") is None:
        text = "not installed, and nvcc, which builds it, is not here"
        return Need("flash_attn", text, f"install the toolkit of CUDA 13, then {need.remedy}")
    return need


def gpus(count: int, gib: float | None) -> Need:
    """Return the need of ``count`` CUDA devices with ``gib`` GiB each; None if that is unknown."""
    import torch

    machine = devices()
    if machine.problem:
        return Need("GPU", machine.problem, machine.remedy)
    wanted_devices = f"{count} CUDA device(s)" + (
        f" with {gib:,.0f} GiB each" if gib is not None else ""
    )
    cuda_devices = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]
    device_text = ", ".join(
        f"{device.name} with {device.total_memory / GIB:.0f} GiB" for device in cuda_devices
    )
    remedy = f"use a machine with {wanted_devices}, or a smaller configuration"
    if len(cuda_devices) < count:
        return Need("GPU", f"{wanted_devices} needed, found {device_text or 'none'}", remedy)
    if gib is not None and min(device.total_memory for device in cuda_devices[:count]) < gib * GIB:
        smaller = "lower host.micro_batch or the token limits of the task, or " + remedy
        return Need("GPU memory", f"{wanted_devices} needed, found {device_text}", smaller)
    return Need("GPU", device_text)


def package(module: str, install: str) -> Need:
    """Return the need of a library."""
    if find_spec(module) is None:
        return Need(module, "not installed", install)
    return Need(module, "installed")


def model(name: str) -> Need:
    """Return the need of a language model's files, in a folder or the Hugging Face cache."""
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
    """Return the folder with the files of a language model, None if they are not here."""
    if (Path(name) / "config.json").is_file():
        return Path(name)
    if find_spec("huggingface_hub") is None:
        return None  # then nothing was downloaded by it
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        file = try_to_load_from_cache(name, "config.json")
    except HFValidationError:
        return None
    return Path(file).parent if isinstance(file, str) else None


@dataclass(frozen=True, slots=True)
class ModelSize:
    """Size of a language model.

    Attributes:
        parameters: number of weights.
        vocabulary: number of its tokens.
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
        """Return the mean number of operations per token of a context of ``tokens`` tokens."""
        return 2 * self.parameters + 2 * self.width * tokens


def model_size(name: str) -> ModelSize | None:
    """Return the size of a language model, from its files or else its name; None if unknown."""
    config = model_config(name)
    if config is not None:
        import torch
        from transformers import AutoModelForCausalLM

        with torch.device("meta"):
            empty = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
        text = config.get_text_config()
        heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
        head_size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        layers = text.num_hidden_layers
        return ModelSize(
            empty.num_parameters(),
            text.vocab_size,
            True,
            layers * text.hidden_size,
            2 * 2 * layers * heads * head_size,
        )
    size_match = re.search(r"(\d+(?:\.\d+)?)([bm])(?![a-z])", name.lower())
    if size_match is None:
        return None
    vocabulary_sizes = (size for part, size in _VOCABULARIES.items() if part in name.lower())
    millions = 1e9 if size_match[2] == "b" else 1e6
    return ModelSize(
        int(float(size_match[1]) * millions), next(vocabulary_sizes, _QWEN_VOCABULARY), False
    )


def ties_embeddings(name: str) -> bool:
    """Return whether a model's input and output embeddings are tied; True if it is unknown."""
    config = model_config(name)
    return config is None or bool(config.tie_word_embeddings)


def positions(name: str) -> int | None:
    """Return the number of tokens that a language model can attend to; None if it is unknown."""
    config = model_config(name)
    return None if config is None else positions_of(config.get_text_config())


def model_config(name: str) -> Any | None:
    """Return the configuration of a language model by ``transformers``; None if it is not here."""
    folder = model_folder(name)
    if folder is None:
        return None
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(folder)


def memory(gib: float) -> Need:
    """Return the need of a machine with ``gib`` GiB of memory."""
    machine_gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB
    text = f"{gib:,.0f} GiB needed while models load, this machine has {machine_gib:,.0f} GiB"
    return Need("memory", text, "use a machine with more memory" if machine_gib < gib else "")


def disk(folder: Path, gib: float, option: str = "--output") -> Need:
    """Return the need of ``gib`` GiB of disk at ``folder``, which ``option`` sets."""
    absolute = folder.absolute()
    parent = next(path for path in (absolute, *absolute.parents) if path.is_dir())
    free = shutil.disk_usage(parent).free / GIB
    text = f"{gib:,.1f} GiB needed, {free:,.1f} GiB free"
    return Need(DISK, text, f"choose another {option}" if free < gib else "")
