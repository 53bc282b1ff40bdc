"""Whether the whole of evoprompt works on this GPU with this model, in at most ten minutes.

    python benchmarks/gpu_gate.py MODEL --output gate        # one CUDA device
    python benchmarks/gpu_gate.py MODEL --output gate --cpu  # in miniature; no stand-in for CUDA

TRL and veRL want different versions of vLLM: where each has an environment of its own, run the gate
in both, with ``--only trl`` and ``--only verl``.

MODEL is a folder with weights, tokenizer and chat template; nothing is downloaded. Every phase of
``gpu_gate_phases.py`` is a process of its own that may take a quarter of the time; one that fails
is named, and all run that do not build on it. ``gate.json`` and ``gate.md`` are written after each
phase, so that a gate that is ended tells what it saw. Exit code 0 when no phase failed, 1 when one
did, 2 for bad input.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from evoprompt.experiments.requirements import GIB, model_size

LIMIT = 600.0
_PHASES_FILE = Path(__file__).with_name("gpu_gate_phases.py")
_SHARE = 4  # of the whole time a phase may take one part in so many
_LOOKS_EVERY = 0.5  # seconds
_BYTES_A_WEIGHT = 18  # bf16 weights, fp32 master and moments, gradients, the copy of vLLM


class Phase(NamedTuple):
    """What a phase needs.

    Attributes:
        needs: beyond a CPU, in words; empty for nothing.
        after: phase whose files it reads; empty for none.
    """

    needs: str = ""
    after: str = ""


PHASES: Mapping[str, Phase] = {
    "trl-static": Phase(),
    "trl-kill": Phase(),
    "trl-resume": Phase(after="trl-kill"),
    "trl-export": Phase(after="trl-resume"),
    "trl-serve": Phase("CUDA and vLLM", "trl-export"),
    "verl-kill": Phase("CUDA and vLLM"),
    "verl-resume": Phase("CUDA and vLLM", "verl-kill"),
    "verl-export": Phase("CUDA and vLLM", "verl-resume"),
    "verl-serve": Phase("CUDA and vLLM", "verl-export"),
    "faiss": Phase("CUDA"),
}
"""In this order."""


def main() -> int:
    """Runs the phases and writes what was seen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--only", choices=("trl", "verl", "faiss"), help="what is installed here")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds, of all phases")
    given = parser.parse_args()
    given.model, given.output = given.model.absolute(), given.output.absolute()
    if wrong := _wrong(given.model, given.output, given.cpu):
        print(f"error: {wrong}", file=sys.stderr)
        return 2
    given.output.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM; phases before are kept"))
    rows: list[dict[str, Any]] = []
    until = time.monotonic() + given.limit
    for name in PHASES:
        rows.append(_run(name, given, until, {row["phase"]: row["status"] for row in rows}))
        (given.output / "gate.json").write_text(json.dumps(rows, indent=2) + "\n")
        (given.output / "gate.md").write_text(_table(rows))
        print(f"{name}: {rows[-1]['status']}", flush=True)
    print(_table(rows))
    return int(any(row["status"] == "failed" for row in rows))


def _wrong(model: Path, output: Path, cpu: bool) -> str:
    """What stands in the way, found before anything starts; empty if nothing does."""
    if output.exists() and any(output.iterdir()):
        return f"{output} is not empty; required: a new folder; name another"
    has = [any(model.glob(name)) for name in ("config.json", "*.safetensors", "tokenizer*")]
    if not all(has):
        return f"{model} is no model; required: a folder with config.json, *.safetensors, tokenizer"
    from transformers import AutoTokenizer

    try:
        if AutoTokenizer.from_pretrained(model).chat_template is None:
            return f"{model} has no chat template; required: a model that was taught to chat"
    except (OSError, ValueError) as error:
        return f"the tokenizer of {model} cannot be loaded ({error}); required: its files, whole"
    if cpu:
        return ""
    import torch

    if not torch.cuda.is_available():
        return "there is no CUDA device here; required: one, or --cpu"
    size = model_size(str(model))
    return too_little(torch.cuda.mem_get_info()[0], size.parameters if size else 0)


def too_little(free: int, weights: int) -> str:
    """What to say where a GPU has too little memory; empty where it has enough.

    Args:
        free: bytes.
        weights: how many the model has.
    """
    needed = weights * _BYTES_A_WEIGHT / GIB + 6
    if free / GIB >= needed:
        return ""
    return (
        f"the GPU has {free / GIB:.0f} GiB free; required: about {needed:.0f} for this model; free "
        "some, or take a smaller model"
    )


def _run(
    name: str, given: argparse.Namespace, until: float, before: Mapping[str, str]
) -> dict[str, Any]:
    """One phase in a process of its own; what it found, or why it did not."""
    row: dict[str, Any] = {"phase": name, "status": "not run", "seconds": 0.0}
    phase = PHASES[name]
    if given.only and not name.startswith(given.only):
        return row | {"reason": f"left out by --only {given.only}"}
    if given.cpu and phase.needs:
        return row | {"reason": f"needs {phase.needs}"}
    if phase.after and before[phase.after] != "passed":
        return row | {"reason": f"needs what {phase.after} leaves, which did not pass"}
    begun = time.monotonic()
    limit = min(given.limit / _SHARE, until - begun)
    if limit <= 1:
        return row | {"status": "failed", "reason": "no time was left"}
    log = given.output / f"{name}.log"
    words = [name, str(given.model), str(given.output), *(["--cpu"] if given.cpu else [])]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, str(_PHASES_FILE), *words],
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code, peaks = _watch(process, begun + limit)
        finally:  # also where the gate itself is ended
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    row |= {"seconds": round(time.monotonic() - begun, 1), "peak_gib": peaks}
    lines = log.read_text(errors="replace").splitlines()
    if code == (-signal.SIGKILL if name == "trl-kill" else 0):
        with suppress(ValueError, IndexError):
            row |= json.loads(lines[-1])
        return row | {"status": "passed"}
    told = [line for line in reversed(lines) if line.strip()]
    named = [line for line in told if line.startswith("error: ")]  # of evoprompt's own commands
    last = next(iter(named or told), "nothing was printed")
    ended = f"no end within {limit:.0f} s" if code is None else f"ended with {code}"
    return row | {"status": "failed", "reason": f"{ended}: {last[:300]} ({log.name})"}


def _watch(process: subprocess.Popen[bytes], until: float) -> tuple[int | None, dict[str, float]]:
    """The exit code, None where ``until`` has passed, and peaks of memory in GiB.

    ``memory`` adds up the resident memory of the phase's processes, and counts what they share
    several times; ``gpu`` is what is used of the first GPU, whoever does.
    """
    peaks: dict[str, float] = {}
    while (code := process.poll()) is None and time.monotonic() < until:
        for kind, used in (("memory", _resident(process.pid)), ("gpu", _gpu_used())):
            if used:
                peaks[kind] = max(peaks.get(kind, 0.0), round(used / GIB, 2))
        time.sleep(_LOOKS_EVERY)
    return code, peaks


def _resident(pid: int) -> int:
    try:
        first = psutil.Process(pid)
        found = [first, *first.children(recursive=True)]
    except psutil.Error:
        return 0
    total = 0
    for one in found:
        with suppress(psutil.Error):
            total += one.memory_info().rss
    return total


def _gpu_used() -> int:
    """Bytes in use on the first GPU, as the driver tells; 0 where there is none."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return 0
    query = [tool, "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=False, timeout=10)
        return int(done.stdout.splitlines()[0]) * 2**20
    except (subprocess.TimeoutExpired, ValueError, IndexError):
        return 0


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    names = ("phase", "status", "seconds", "peak_gib", "engine_share")
    lines = ["| " + " | ".join((*names, "what was seen")) + " |", "|---" * 6 + "|"]
    for row in rows:
        rest = {key: value for key, value in row.items() if key not in names}
        seen = "; ".join(f"{key}: {value}" for key, value in rest.items()).replace("|", "/")
        peaks = ", ".join(f"{kind} {used}" for kind, used in row.get("peak_gib", {}).items())
        cells = [str(row.get(name, "")) for name in names]
        cells[names.index("peak_gib")] = peaks
        lines.append("| " + " | ".join([*cells, seen]) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
