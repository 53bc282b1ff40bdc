"""Check in at most ten minutes that training with evoprompt works on this GPU with this model.

    python benchmarks/gpu_gate.py MODEL --output gate        # one CUDA device
    python benchmarks/gpu_gate.py MODEL --output gate --cpu  # TRL alone, in miniature

TRL and veRL want different versions of vLLM: where each has an environment of its own, run the gate
in both, with ``--only trl`` and ``--only verl``. Without vLLM, transformers sample for TRL, and the
row says so.

MODEL is a folder with weights, tokenizer and chat template; nothing is downloaded. Every phase is a
process of its own that may take a quarter of the time; one that fails is named, and all run that do
not build on it. ``gate.json`` is written after each phase. OUTPUT takes some 24 bytes a weight, as
one checkpoint with its optimizer replaces another. Exit code 0 when no phase failed, 1 when one
did, 2 for bad input.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evoprompt import Engine, EngineConfig, Proposer, attach
from evoprompt.log.eventlog import EventLog
from evoprompt.roles import ProposalRequest
from evoprompt.types import Proposal

LIMIT = 600.0
PHASES = {
    "trl-static": "",
    "trl-kill": "",
    "trl-resume": "trl-kill",
    "verl-kill": "",
    "verl-resume": "verl-kill",
}
"""In this order, each with the one whose files it goes on from."""

_SENTENCES = ("Answer with a number.", "Think before you answer.", "Be brief.", "Check the sum.")
_EVOPROMPT = [sys.executable, "-m", "evoprompt"]
_VERL = """\
task: {{name: calculator, train: 64, validation: 8, test: 8}}
host: {{name: verl, model: {model}, gpus_per_node: 1, questions_per_step: 8,
  rollouts_per_question: 4, save_every: 1, prompt_tokens: 1024, arguments: {{
  actor_rollout_ref.actor.strategy: fsdp2, actor_rollout_ref.rollout.name: vllm,
  actor_rollout_ref.model.use_remove_padding: false,
  +actor_rollout_ref.model.override_config.attn_implementation: sdpa}}}}
engine: {{population_size: 4, evolve_every: 1, verify_questions: 2, verify_rounds: 1, accept: top,
  proposer: sentence-edit}}
arms: [coevolve, static]
budget: 128
evaluate_every: 128
"""


def main() -> int:
    """Run the phases and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--only", choices=("trl", "verl"), help="what is installed here")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds, of all phases")
    parser.add_argument("--phase", choices=PHASES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.model, arguments.output = arguments.model.absolute(), arguments.output.absolute()
    if arguments.phase:
        result = run_phase(arguments.phase, arguments.model, arguments.output, arguments.cpu)
        print(f"\n{json.dumps(result)}")
        return 0
    if wrong := find_fault(arguments.model, arguments.output, arguments.cpu):
        print(f"error: {wrong}", file=sys.stderr)
        return 2
    arguments.output.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    until = time.monotonic() + arguments.limit
    for name in PHASES:
        passed = {row["phase"] for row in rows if row["status"] == "passed"}
        rows.append({"phase": name} | start_phase(name, arguments, passed, until))
        (arguments.output / "gate.json").write_text(json.dumps(rows, indent=2) + "\n")
        print(*(f"{key}: {value}" for key, value in rows[-1].items()), sep="; ", flush=True)
    return int(any(row["status"] == "failed" for row in rows))


def find_fault(model: Path, output: Path, cpu: bool) -> str:
    """Return the obstacles that are known before the start."""
    if output.exists() and any(output.iterdir()):
        return f"{output} is not empty; required: a new folder; name another"
    if not all(any(model.glob(name)) for name in ("config.json", "*.safetensors", "tokenizer*")):
        return f"{model} is no model; required: a folder with config.json, *.safetensors, tokenizer"
    from transformers import AutoTokenizer

    if AutoTokenizer.from_pretrained(model).chat_template is None:
        return f"{model} has no chat template; required: a model that was trained to chat"
    import torch

    if not cpu and not torch.cuda.is_available():
        return "there is no CUDA device here; required: one, or --cpu"
    return ""


def start_phase(
    name: str, arguments: argparse.Namespace, passed: set[str], until: float
) -> dict[str, Any]:
    """Run one phase in a process of its own; return its result or its error."""
    if arguments.only and not name.startswith(arguments.only):
        return {"status": "not run", "reason": f"left out by --only {arguments.only}"}
    if arguments.cpu and name.startswith("verl"):
        return {"status": "not run", "reason": "needs CUDA and vLLM"}
    before = PHASES[name]
    if before and before not in passed:
        return {"status": "not run", "reason": f"needs what {before} leaves, which did not pass"}
    start = time.monotonic()
    limit = max(min(arguments.limit / 4, until - start), 0)
    log = arguments.output / f"{name}.log"
    words = [str(arguments.model), "--output", str(arguments.output), "--phase", name]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, __file__, *words, *(["--cpu"] if arguments.cpu else [])],
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            outcome = f"ended with {process.wait(limit)}"
        except subprocess.TimeoutExpired:
            outcome = f"no end within {limit:.0f} s"
        finally:  # also where the gate itself is ended
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    row: dict[str, Any] = {"status": "passed", "seconds": round(time.monotonic() - start, 1)}
    if outcome == f"ended with {-signal.SIGKILL if name == 'trl-kill' else 0}":
        return row if name == "trl-kill" else row | json.loads(lines[-1])
    last = lines[-1] if lines else "nothing was printed"
    return row | {"status": "failed", "reason": f"{outcome}: {last[:300]} ({log.name})"}


def run_phase(name: str, model: Path, output: Path, cpu: bool) -> Mapping[str, Any]:
    """Return the result of one phase."""
    if name == "verl-kill":
        return kill_verl(model, output)
    if name == "verl-resume":
        return resume_verl(output)
    return train_trl(model, output / name.replace("resume", "kill"), cpu, name)


class AddSentence(Proposer):
    """Adds a sentence of the bank."""

    def propose(self, request: ProposalRequest) -> list[Proposal]:
        """Return one proposal."""
        parent = request.parents[0].candidate
        new_sentence = request.rng.choice(
            [sentence for sentence in _SENTENCES if sentence not in parent.text]
        )
        return [Proposal.of(f"{parent.text} {new_sentence}", parent)]


def train_trl(model: Path, folder: Path, cpu: bool, phase: str) -> Mapping[str, Any]:
    """Six steps under TRL; all but ``trl-static`` evolve, and ``trl-kill`` is lost at the third."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    class Kill(TrainerCallback):
        """Ends the process as a lost machine would, one step after a save."""

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if phase == "trl-kill" and state.global_step == 3:  # a save was at 2
                os.kill(os.getpid(), signal.SIGKILL)

    def short(completions: list[Any], **columns: Any) -> list[float | None]:
        texts = [str(completion[-1]["content"]) for completion in completions]
        return [sum(map(str.isalnum, text)) / (len(text) + 1) for text in texts]

    vllm = not cpu and find_spec("vllm") is not None
    device: dict[str, Any] = {"use_cpu": cpu, "bf16": not cpu, "use_vllm": vllm}
    if vllm:
        device |= {"vllm_mode": "colocate", "vllm_enable_sleep_mode": True}
        device |= {"vllm_gpu_memory_utilization": 0.3}
    prompts = [[{"role": "user", "content": f"What is {n} plus {n + 3}?"}] for n in range(64)]
    trainer = GRPOTrainer(
        model=str(model),
        reward_funcs=[short],
        args=GRPOConfig(
            output_dir=str(folder),
            per_device_train_batch_size=4 if cpu else 32,
            num_generations=4,
            max_completion_length=8 if cpu else 64,
            max_steps=4 if cpu else 6,
            save_strategy="no" if phase == "trl-static" else "steps",
            save_steps=2,
            save_total_limit=1,
            logging_steps=1,
            report_to="none",
            seed=3,
            **device,
        ),
        train_dataset=Dataset.from_dict({"prompt": prompts}),
        callbacks=[Kill()],
    )
    engine = Engine(
        ["You are good at sums."],
        proposer=None if phase == "trl-static" else AddSentence(),
        config=EngineConfig(evolve_every=2, verify_questions=2, accept="top"),
        seed=1,
        log=EventLog(folder / "events.jsonl"),
    )
    attach(trainer, engine)
    start = time.perf_counter()
    trainer.train(resume_from_checkpoint=True if phase == "trl-resume" else None)
    seconds = time.perf_counter() - start
    if phase == "trl-resume" and not engine.verification_rollouts:
        raise SystemExit("nothing was verified")
    share = engine.engine_seconds / max(seconds - engine.verify_seconds, 1e-9)
    return {
        "sampled_by": "vllm" if vllm else "transformers",
        "steps": engine.step,
        "verification_rollouts": engine.verification_rollouts,
        "engine_share": round(share, 4),
    }


def kill_verl(model: Path, output: Path) -> Mapping[str, Any]:
    """Run the co-evolving arm under veRL with FSDP2 and vLLM; kill it after a checkpoint."""
    config, folder = output / "verl.yaml", output / "verl"
    config.write_text(_VERL.format(model=json.dumps(str(model))))
    run = subprocess.Popen([*_EVOPROMPT, "run", str(config), "--output", str(folder)])
    saved = folder / "trials" / "coevolve"
    while run.poll() is None and not any(saved.glob("*/checkpoints/*/evoprompt_state.json")):
        time.sleep(0.2)
    if run.poll() is not None:
        raise SystemExit(f"the run ended with {run.returncode} before its first checkpoint")
    run.kill()
    run.wait()
    return {"killed": "after a checkpoint"}


def resume_verl(output: Path) -> Mapping[str, Any]:
    """Both arms to their end; the first one goes on from its checkpoint."""
    subprocess.run([*_EVOPROMPT, "run", str(output / "verl"), "--resume"], check=True)
    trial = output / "verl" / "trials" / "coevolve" / "seed-0"
    events = [json.loads(line) for line in (trial / "events.jsonl").read_text().splitlines()]
    verified = sum(event["event"] == "verified" for event in events)
    if not verified:
        raise SystemExit("nothing was verified")
    result: Mapping[str, Any] = json.loads((trial / "result.json").read_text())
    return {"rollouts": result["rollouts"], "candidates_verified": verified}


if __name__ == "__main__":
    sys.exit(main())
