"""Whether the whole of evoprompt works on this GPU with this model, in at most ten minutes.

    python benchmarks/gpu_gate.py MODEL --output gate        # one CUDA device
    python benchmarks/gpu_gate.py MODEL --output gate --cpu  # in miniature; no stand-in for CUDA

MODEL is a folder with weights, tokenizer and chat template; nothing is downloaded. Every phase is a
process of its own with a time limit; one that fails is named, and the others still run. Writes
``gate.json`` and ``gate.md``. Exit code 0 when no phase failed, 1 when one did, 2 for bad input.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evoprompt.requirements import GIB, model_size

LIMIT = 600.0
_BYTES_A_WEIGHT = 18  # bf16 weights, fp32 master and moments, gradients, the copy of vLLM
_PORT = 8123
_QUESTION = "What is 7 plus 5? Answer with a number."
_SENTENCES = ("Answer with a number.", "Think before you answer.", "Be brief.", "Check the sum.")
_VERL = """\
task: calculator
host: {{name: verl, model: {model}, questions_per_step: 8, rollouts_per_question: 4,
  arguments: {{actor_rollout_ref.actor.strategy: fsdp2, actor_rollout_ref.rollout.name: vllm}}}}
budget: 96
evaluate_every: 96
"""


def main() -> int:
    """Runs the phases and writes what was seen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds, of all phases")
    parser.add_argument("--phase", help=argparse.SUPPRESS)
    given = parser.parse_args()
    model, output = given.model.absolute(), given.output.absolute()
    if given.phase:
        found = PHASES[given.phase][0](model, output, given.cpu)
        print("\n" + json.dumps(found | {"peak_gib": _peak()}))
        return 0
    if wrong := _wrong(model, output, given.cpu):
        print(f"error: {wrong}", file=sys.stderr)
        return 2
    output.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + given.limit
    rows = [_run(name, given, until) for name in PHASES]
    (output / "gate.json").write_text(json.dumps(rows, indent=2) + "\n")
    table = _table(rows)
    (output / "gate.md").write_text(table)
    print(table)
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
    free = torch.cuda.mem_get_info()[0] / GIB
    size = model_size(str(model))
    needed = (size.parameters if size else 0) * _BYTES_A_WEIGHT / GIB + 6
    if free < needed:
        return (
            f"the GPU has {free:.0f} GiB free; required: about {needed:.0f} for this model; free "
            "some, or take a smaller model"
        )
    return ""


def _run(name: str, given: argparse.Namespace, until: float) -> dict[str, Any]:
    """One phase in a process of its own; what it found, or why it did not."""
    row: dict[str, Any] = {"phase": name, "status": "not run", "seconds": 0.0}
    needs = PHASES[name][1]
    if given.cpu and needs:
        return row | {"reason": f"needs {needs}"}
    begun = time.monotonic()
    limit = until - begun
    if limit <= 1:
        return row | {"status": "failed", "reason": "no time was left"}
    arguments = [str(given.model), "--output", str(given.output), "--phase", name]
    log = given.output / f"{name}.log"
    with log.open("w+b") as file:
        process = subprocess.Popen(
            [sys.executable, __file__, *arguments, *(["--cpu"] if given.cpu else [])],
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code: int | str = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = f"no end within {limit:.0f} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    row["seconds"] = round(time.monotonic() - begun, 1)
    lines = log.read_text(errors="replace").splitlines() or [""]
    if code == (-signal.SIGKILL if name == "trl-kill" else 0):
        with suppress(ValueError):
            row |= json.loads(lines[-1])
        return row | {"status": "passed"}
    last = next((line for line in reversed(lines) if line.strip()), "nothing was printed")
    return row | {"status": "failed", "reason": f"ended with {code}: {last[:300]}"}


def _table(rows: Sequence[dict[str, Any]]) -> str:
    names = ("phase", "status", "seconds", "peak_gib", "engine_share")
    lines = ["| " + " | ".join((*names, "what was seen")) + " |", "|---" * 6 + "|"]
    for row in rows:
        rest = {key: value for key, value in row.items() if key not in names}
        seen = "; ".join(f"{key}: {value}" for key, value in rest.items()).replace("|", "/")
        cells = [str(row.get(name, "")) for name in names]
        lines.append("| " + " | ".join([*cells, seen]) + " |")
    return "\n".join(lines) + "\n"


def _peak() -> dict[str, float]:
    found = {"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB}
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        found["gpu"] = torch.cuda.max_memory_reserved() / GIB
    return {name: round(value, 2) for name, value in found.items()}


# ---------------------------------------------------------------------------------------- phases


def _train(
    model: Path, output: Path, cpu: bool, *, arm: str, kill: bool = False, resume: bool = False
) -> dict[str, Any]:
    """Six steps under TRL; the arm ``evolve`` is verified and may be killed in the middle."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    import evoprompt
    from evoprompt.eventlog import EventLog
    from evoprompt.interfaces import ProposalRequest
    from evoprompt.types import Proposal

    class Adds:
        """Adds a sentence of the bank."""

        def propose(self, request: ProposalRequest) -> list[Proposal]:
            parent = request.parents[0].candidate
            said = request.rng.choice([one for one in _SENTENCES if one not in parent.text])
            return [Proposal.of(f"{parent.text} {said}", parent)]

    class Kills(TrainerCallback):
        """Ends the process as a lost machine would, one step after a save."""

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if kill and state.global_step == 3:  # a save was at 2
                sys.stdout.flush()
                os.kill(os.getpid(), signal.SIGKILL)

    def short(completions: list[Any], **columns: Any) -> list[float | None]:
        texts = [str(completion[-1]["content"]) for completion in completions]
        return [sum(map(str.isalnum, text)) / (len(text) + 1) for text in texts]

    folder = output / f"trl-{arm}"
    vllm: dict[str, Any] = {"use_cpu": True, "bf16": False} if cpu else {"bf16": True}
    if not cpu:
        vllm |= {"use_vllm": True, "vllm_mode": "colocate", "vllm_enable_sleep_mode": True}
        vllm |= {"vllm_gpu_memory_utilization": 0.3}
    numbers = [f"What is {one} plus {one + 3}?" for one in range(64)]
    trainer = GRPOTrainer(
        model=str(model),
        reward_funcs=[short],
        args=GRPOConfig(
            output_dir=str(folder),
            per_device_train_batch_size=4 if cpu else 32,
            num_generations=4,
            max_completion_length=8 if cpu else 64,
            max_steps=4 if cpu else 6,
            save_steps=2,
            logging_steps=1,
            report_to="none",
            seed=3,
            **vllm,
        ),
        train_dataset=Dataset.from_list(
            [{"prompt": [{"role": "user", "content": one}]} for one in numbers]
        ),
        callbacks=[Kills()],
    )
    config = evoprompt.EngineConfig(evolve_every=2, verify_questions=2, accept="top")
    engine = evoprompt.Engine(
        ["You are good at sums."],
        proposer=Adds() if arm == "evolve" else None,
        config=config,
        seed=1,
        log=EventLog(folder / "events.jsonl"),
    )
    evoprompt.attach(trainer, engine)
    begun = time.perf_counter()
    trainer.train(resume_from_checkpoint=True if resume else None)
    spent = time.perf_counter() - begun
    if arm == "evolve" and not engine.verification_rollouts:
        raise SystemExit("nothing was verified")
    share = engine.engine_seconds / max(spent - engine.verify_seconds, 1e-9)
    return {
        "steps": engine.step,
        "candidates": engine.screening.born,
        "engine_share": round(share, 4),
        "verification_rollouts": engine.verification_rollouts,
        "seconds_a_step": round(spent / max(engine.step, 1), 3),
    }


def _static(model: Path, output: Path, cpu: bool) -> dict[str, Any]:
    return _train(model, output, cpu, arm="static")


def _kill(model: Path, output: Path, cpu: bool) -> dict[str, Any]:
    _train(model, output, cpu, arm="evolve", kill=True)
    raise SystemExit("the training was to be killed, and ended")


def _resume(model: Path, output: Path, cpu: bool) -> dict[str, Any]:
    return _train(model, output, cpu, arm="evolve", resume=True)


def _export(model: Path, output: Path, cpu: bool) -> dict[str, Any]:
    """The export of the resumed training asks by the tokens of the training."""
    from evoprompt.export.delivery import deliver

    lines = deliver(output / "trl-evolve", output / "export", None, None, merge=False)
    return {"said": lines[1]}


def _serve(model: Path, output: Path, cpu: bool) -> dict[str, Any]:
    """VLLM serves the export by its line; a question has as many tokens as in training."""
    from transformers import AutoTokenizer

    from evoprompt.export.check import trained_tokens
    from evoprompt.export.recipe import Recipe
    from evoprompt.export.serving import serve_line

    folder = output / "export"
    recipe = Recipe.read(folder)
    command = [*shlex.split(serve_line(folder, recipe, folder)), "--port", str(_PORT)]
    server = subprocess.Popen([*command, "--gpu-memory-utilization", "0.5"])
    try:
        body = {"model": "evoprompt", "messages": [{"role": "user", "content": _QUESTION}]}
        answer = _asked(server, json.dumps(body | {"max_tokens": 16, "temperature": 0}).encode())
    finally:
        server.terminate()
        server.wait(30)
    wanted = len(trained_tokens(AutoTokenizer.from_pretrained(folder), recipe, _QUESTION))
    if answer["usage"]["prompt_tokens"] != wanted:
        raise SystemExit(f"{answer['usage']['prompt_tokens']} prompt tokens, not {wanted}")
    return {"prompt_tokens": wanted, "said": answer["choices"][0]["message"]["content"][:80]}


def _asked(server: subprocess.Popen[bytes], body: bytes) -> dict[str, Any]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{_PORT}/v1/chat/completions", body, {"Content-Type": "application/json"}
    )
    while server.poll() is None:
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                found: dict[str, Any] = json.load(response)
                return found
        except ConnectionError:
            time.sleep(1)
        except OSError as error:
            if not isinstance(getattr(error, "reason", None), ConnectionError):
                raise
            time.sleep(1)
    raise SystemExit(f"vllm serve ended with {server.returncode}")


def _verl(model: Path, output: Path, cpu: bool) -> dict[str, Any]:
    """Both arms under veRL with FSDP2 and vLLM, killed and resumed, then exported."""
    config = output / "verl.yaml"
    config.write_text(_VERL.format(model=json.dumps(str(model))))
    evoprompt = [sys.executable, "-m", "evoprompt"]
    run = subprocess.Popen([*evoprompt, "run", str(config), "--output", str(output / "verl")])
    saved = output / "verl" / "trials"
    while run.poll() is None and not any(saved.glob("*/*/checkpoints/**/evoprompt_state.json")):
        time.sleep(1)
    run.kill()
    run.wait()
    subprocess.run([*evoprompt, "run", str(output / "verl"), "--resume"], check=True)
    export = [*evoprompt, "export", str(output / "verl"), str(output / "verl-export")]
    subprocess.run(export, check=True)
    return {"killed_and_resumed": True}


def _faiss(model: Path, output: Path, cpu: bool) -> dict[str, Any]:
    """The same neighbours from faiss on the GPU and on the CPU, and how much faster."""
    if find_spec("faiss") is None:
        raise SystemExit("faiss is not installed; required: faiss-gpu")
    import faiss
    import numpy as np

    made = np.random.default_rng(0)
    vectors = made.standard_normal((200_000, 256), dtype=np.float32)
    asked = made.standard_normal((256, 256), dtype=np.float32)
    index = faiss.IndexFlatIP(256)
    index.add(vectors)
    begun = time.perf_counter()
    _, wanted = index.search(asked, 5)
    slow = time.perf_counter() - begun
    moved = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, index)
    moved.search(asked, 5)
    begun = time.perf_counter()
    _, found = moved.search(asked, 5)
    fast = time.perf_counter() - begun
    same = float((wanted == found).mean())
    if same < 0.99:
        raise SystemExit(f"{same:.3f} of the neighbours are the same; required: .99")
    return {"same": same, "cpu_seconds": round(slow, 4), "gpu_seconds": round(fast, 4)}


Phase = Callable[[Path, Path, bool], dict[str, Any]]
PHASES: dict[str, tuple[Phase, str]] = {
    "trl-static": (_static, ""),
    "trl-kill": (_kill, ""),
    "trl-resume": (_resume, ""),
    "export": (_export, ""),
    "serve": (_serve, "CUDA and vLLM"),
    "verl": (_verl, "CUDA and vLLM"),
    "faiss": (_faiss, "CUDA"),
}
"""What is done, in this order, and what it needs beyond a CPU."""

if __name__ == "__main__":
    sys.exit(main())
