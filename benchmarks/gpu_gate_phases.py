"""The phases of ``gpu_gate.py``: ``gpu_gate_phases.py NAME MODEL OUTPUT [--cpu]``.

The last line that a phase prints is a JSON object with what it saw.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evoprompt import Proposer

_PORT = 8123
_QUESTION = "What is 7 plus 5? Answer with a number."
_SENTENCES = ("Answer with a number.", "Think before you answer.", "Be brief.", "Check the sum.")
_EVOPROMPT = [sys.executable, "-m", "evoprompt"]
_VERL_HOST = """{name: verl, gpus_per_node: 1, arguments: {
  actor_rollout_ref.actor.strategy: fsdp2, actor_rollout_ref.rollout.name: vllm,
  actor_rollout_ref.model.use_remove_padding: false,
  +actor_rollout_ref.model.override_config.attn_implementation: sdpa}}"""  # without flash_attn
_VERL = """\
task: {{name: calculator, train: 64, validation: 8, test: 8}}
host: {host}
engine: {{population_size: 4, evolve_every: 1, verify_questions: 2, verify_rounds: 1, accept: top,
  proposer: sentence-edit}}
arms: [coevolve, static]
budget: 128
evaluate_every: 128
"""
_VERL_SIZE = [
    *("host.questions_per_step=8", "host.rollouts_per_question=4", "host.save_every=1"),
    "host.prompt_tokens=1024",  # some chat templates describe tools at length
]


def main() -> int:
    """Runs one phase and prints what it saw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=PHASES)
    parser.add_argument("model", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--cpu", action="store_true")
    given = parser.parse_args()
    print("\n" + json.dumps(PHASES[given.name](given.model, given.output, given.cpu)))
    return 0


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
    from evoprompt.roles import ProposalRequest
    from evoprompt.types import Proposal

    class Adds(Proposer):
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
    from evoprompt.experiments.export import export

    lines = export(output / "trl-evolve", output / "trl-export")
    return {"said": lines[1]}


def _serve(folder: Path) -> dict[str, Any]:
    """VLLM serves the export by its line; a question has as many tokens as in training."""
    from transformers import AutoTokenizer

    from evoprompt.agents.recipe import Recipe
    from evoprompt.experiments.export.card import serve_line
    from evoprompt.experiments.export.template import trained_tokens

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
    said = str(answer["choices"][0]["message"]["content"])
    return {"prompt_tokens": wanted, "said": said[:80]}


def _trl_serve(model: Path, output: Path, cpu: bool) -> dict[str, Any]:
    return _serve(output / "trl-export")


def _verl_serve(model: Path, output: Path, cpu: bool) -> dict[str, Any]:
    return _serve(output / "verl-export")


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


def _verl_kill(model: Path, output: Path, cpu: bool) -> dict[str, Any]:
    """The co-evolving arm under veRL with FSDP2 and vLLM, killed after its first checkpoint."""
    config, folder = output / "verl.yaml", output / "verl"
    config.write_text(_VERL.format(host=_VERL_HOST))
    settings = [f"host.model={json.dumps(str(model))}", *_VERL_SIZE]
    words = [word for one in settings for word in ("--set", one)]
    run = subprocess.Popen([*_EVOPROMPT, "run", str(config), *words, "--output", str(folder)])
    saved = folder / "trials" / "coevolve"
    while run.poll() is None and not any(saved.glob("*/checkpoints/*/evoprompt_state.json")):
        time.sleep(0.2)
    if run.poll() is not None:
        raise SystemExit(f"the run ended with {run.returncode} before its first checkpoint")
    run.kill()
    run.wait()
    return {"killed": "after a checkpoint"}


def _verl_resume(model: Path, output: Path, cpu: bool) -> dict[str, Any]:
    """Both arms to their end; the first one goes on from its checkpoint."""
    folder = output / "verl"
    subprocess.run([*_EVOPROMPT, "run", str(folder), "--resume"], check=True)
    trial = folder / "trials" / "coevolve" / "seed-0"
    events = [json.loads(line) for line in (trial / "events.jsonl").read_text().splitlines()]
    verified = sum(event["event"] == "verified" for event in events)
    if not verified:
        raise SystemExit("nothing was verified")
    result: Mapping[str, Any] = json.loads((trial / "result.json").read_text())
    spent = result["train_seconds"] - result["verify_seconds"]
    return {
        "rollouts": result["rollouts"],
        "candidates_verified": verified,
        "engine_share": round(result["engine_seconds"] / spent, 4),
        "train_seconds": round(result["train_seconds"], 1),
    }


def _verl_export(model: Path, output: Path, cpu: bool) -> dict[str, Any]:
    folder = output / "verl-export"
    words = ["export", str(output / "verl"), str(folder), "--arm", "coevolve"]
    done = subprocess.run([*_EVOPROMPT, *words], check=True, stdout=subprocess.PIPE, text=True)
    return {"said": done.stdout.splitlines()[1]}


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


PHASES: Mapping[str, Callable[[Path, Path, bool], dict[str, Any]]] = {
    "trl-static": _static,
    "trl-kill": _kill,
    "trl-resume": _resume,
    "trl-export": _export,
    "trl-serve": _trl_serve,
    "verl-kill": _verl_kill,
    "verl-resume": _verl_resume,
    "verl-export": _verl_export,
    "verl-serve": _verl_serve,
    "faiss": _faiss,
}
"""By the names that ``gpu_gate.py`` calls them."""

if __name__ == "__main__":
    sys.exit(main())
