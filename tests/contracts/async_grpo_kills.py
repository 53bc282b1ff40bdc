"""A real AsyncGRPOTrainer on a CPU that trains through the gateway, and may be killed anywhere.

Rollout worker and weight transfer are protocols of the trainer. Two things of it need a GPU and are
replaced: its attention, a FlashAttention 3 kernel (``trl/experimental/async_grpo/packing.py``), and
the speed of the device, by which it reports its utilization.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import tiny_trl
import torch
from contract_runs import EngineSpec
from datasets import Dataset
from evoprompt_trl.async_grpo import build_async_trainer, load_async_grpo
from faults import WORK
from transformers import AttentionInterface, TrainerCallback
from trl_host import digest

import evoprompt
from evoprompt.gateway import Gateway, GatewaySettings, UnknownConversationError
from evoprompt.support.storage import LineFile

ROLLOUTS, GROUPS, STEPS, TOKENS = 4, 2, 5, 8
SEEDS = ("be brief", "think first", "look it up")
ENGINE = EngineSpec(SEEDS, settings={"population_size": 4, "prune_every": 2, "evolve_every": 2})
WHOLE = "whole"
"""File in a checkpoint of the trainer to which nothing is added any more."""

TREE = "tree_fa3"


def attention(
    module: Any, query: Any, key: Any, value: Any, mask: Any, *, scaling: Any = None, **given: Any
) -> tuple[torch.Tensor, None]:
    """What the trainer's kernel computes, one segment of the tree after the other."""
    repeats = query.shape[1] // key.shape[1]
    q, k, v = (one[0].transpose(0, 1) for one in (query, key, value))
    k, v = (one[given["tree_kv_index"]].repeat_interleave(repeats, dim=1) for one in (k, v))
    of_q, of_k = (given[f"tree_cu_seqlens_{one}"].tolist() for one in "qk")
    out = torch.empty_like(q)
    for at in range(len(of_q) - 1):
        mine, seen = slice(of_q[at], of_q[at + 1]), slice(of_k[at], of_k[at + 1])
        rows, columns = of_q[at + 1] - of_q[at], of_k[at + 1] - of_k[at]
        allowed = torch.ones(rows, columns, dtype=torch.bool).tril(columns - rows)
        scores = torch.einsum("qhd,khd->hqk", q[mine], k[seen]) * scaling
        scores = scores.masked_fill(~allowed, float("-inf")).softmax(-1)
        out[mine] = torch.einsum("hqk,khd->qhd", scores, v[seen])
    return out.unsqueeze(0), None


class Policy:
    """Serves a model's answers with the tokens and log-probabilities, as vLLM does on request."""

    def __init__(self) -> None:
        self.model = tiny_trl.model()
        self.tokenizer = tiny_trl.tokenizer()
        self.lock = threading.Lock()
        self.systems: list[str] = []
        policy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                ours = policy.generated if self.path.endswith("/generate") else policy.answer
                content = json.dumps(ours(body)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def do_GET(self) -> None:
                self.send_error(404)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A completion of a chat."""
        messages = body["messages"]
        ids: Any = self.tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=False
        )
        said, told = self.sampled(ids, messages[0]["content"], body["seed"])
        message = {"role": "assistant", "content": self.tokenizer.decode(said)}
        choice = {"index": 0, "message": message, "finish_reason": "length", "token_ids": said}
        choice["logprobs"] = {"content": [{"logprob": one} for one in told]}
        return {"choices": [choice], "prompt_token_ids": ids}

    def generated(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A completion of tokens, as vLLM's endpoint of that name has them."""
        ids = body["token_ids"]
        said, told = self.sampled(ids, str(self.tokenizer.decode(ids)))
        content = [
            {"token": f"token_id:{token}", "logprob": one}
            for token, one in zip(said, told, strict=True)
        ]
        choice = {"index": 0, "token_ids": said, "finish_reason": "length"}
        return {"request_id": "r", "choices": [{**choice, "logprobs": {"content": content}}]}

    def sampled(
        self, ids: list[int], system: str, seed: int | None = None
    ) -> tuple[list[int], list[float]]:
        """Tokens after ``ids``, and their log-probabilities."""
        said: list[int] = []
        told: list[float] = []
        with self.lock, torch.no_grad():
            self.systems.append(system)
            sampling = torch.Generator().manual_seed(seed or len(self.systems))
            for _ in range(TOKENS):
                logits = self.model(torch.tensor([[*ids, *said]])).logits[0, -1].log_softmax(-1)
                said.append(int(torch.multinomial(logits.exp(), 1, generator=sampling)))
                told.append(float(logits[said[-1]]))
        return said, told


class Weights:
    """The trainer's weights go to the policy that answers."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.sent = 0

    def init_weight_transfer(self) -> None:
        pass

    def pause(self) -> None:
        self.policy.lock.acquire()

    def send_weights(self, iterator: Iterator[tuple[str, torch.Tensor]]) -> None:
        self.policy.model.load_state_dict({name: one.clone() for name, one in iterator})
        self.sent += 1

    def resume(self) -> None:
        self.policy.lock.release()

    def destroy(self) -> None:
        pass


class Worker:
    """Has conversations through the gateway, and hands what was sampled to the trainer.

    It writes down what was sampled before it rewards it, in ``journal``, and hands that over again
    to a trainer that went back to a checkpoint. The samples of a step are had when the trainer has
    the weights of the step before, never earlier or later, so that each training is the same.

    Args:
        gateway: to ask through.
        journal: of this and earlier processes.
        first: step that the trainer begins with.
    """

    def __init__(self, gateway: Gateway, journal: Path, first: int) -> None:
        self.gateway = gateway
        self.journal = LineFile(journal)
        self.had: dict[str, Any] = {}
        for line in self.journal:
            self.had |= json.loads(line)
        self.first = first
        self.rollout_buffer: queue.Queue[Any] = queue.Queue()
        self.metrics_queue: queue.Queue[Any] = queue.Queue()
        self.version = 0
        self.newer = threading.Condition()
        self.over = False
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self.work, daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        with self.newer:
            self.over = True
            self.newer.notify_all()
        self.thread.join()

    def update_model_version(self, model_version: int) -> None:
        with self.newer:
            self.version = model_version
            self.newer.notify_all()

    def check_health(self, stale_after_s: float) -> None:
        if self.failure is not None:
            raise self.failure

    def work(self) -> None:
        rows = tiny_trl.questions()
        try:
            for step in range(self.first, STEPS + 1):  # the trainer takes one more than it needs
                with self.newer:
                    while not self.over and self.version < max(1, step - self.first):
                        self.newer.wait()
                if self.over:
                    return
                for number in range(step * GROUPS, (step + 1) * GROUPS):
                    self.group(number, rows[number % len(rows)]["prompt"][0]["content"])
                engine = self.gateway.engine
                self.metrics_queue.put({f"evoprompt/{k}": v for k, v in engine.metrics().items()})
        except BaseException as error:
            self.failure = error

    def group(self, number: int, text: str) -> None:
        keys = [f"{number}/{place}" for place in range(ROLLOUTS)]
        for key in keys:
            if key not in self.had:
                self.gateway.conversation(evoprompt.Question(text, text), f"{number}", key)
                seed = 1 + number * ROLLOUTS + int(key.split("/")[1])
                self.had[key] = self.asked(key, text, seed)
                self.journal.append(json.dumps({key: self.had[key]}).encode() + b"\n")
            with suppress(UnknownConversationError):  # it was rewarded
                self.gateway.reward(key, self.had[key]["reward"])
        samples = [self.had[key] for key in keys]
        mean = sum(sample["reward"] for sample in samples) / ROLLOUTS
        for sample in samples:
            self.rollout_buffer.put(self.sample(number, text, sample, sample["reward"] - mean))

    def asked(self, key: str, text: str, seed: int) -> dict[str, Any]:
        asked = {"model": "policy", "seed": seed, "messages": [{"role": "user", "content": text}]}
        request = urllib.request.Request(
            f"{self.gateway.url}/chat/completions",
            json.dumps(asked).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
        )
        with urllib.request.urlopen(request) as response:
            answer = json.load(response)
        words = answer["choices"][0]["message"]["content"].split()
        return {"answer": answer, "reward": sum(word in tiny_trl.COUNTRIES for word in words) / 8}

    def sample(self, number: int, text: str, had: Mapping[str, Any], advantage: float) -> Any:
        choice, prompt = had["answer"]["choices"][0], had["answer"]["prompt_token_ids"]
        told = [one["logprob"] for one in choice["logprobs"]["content"]]
        fields: dict[str, Any] = {
            "prompt": [{"role": "user", "content": text}],
            "completion": [choice["message"]],
            "input_ids": np.array([*prompt, *choice["token_ids"]]),
            "completion_mask": np.array([0] * len(prompt) + [1] * len(told)),
            "old_log_probs": np.array([0.0] * len(prompt) + told, dtype=np.float32),
            "advantage": advantage,
            "model_version": self.version,
            "group_id": number,
            "metrics": {"reward": had["reward"]},
        }
        return load_async_grpo().sample(**fields)


class Saved(TrainerCallback):
    """Marks checkpoints that are whole, and leaves out one of the last step."""

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """The trainer would resume that for one step too many."""
        control.should_save = control.should_save and state.global_step < STEPS

    def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """All its files are there."""
        Path(args.output_dir, f"checkpoint-{state.global_step}", WHOLE).touch()


def trained(
    work: Path,
    upstream: str,
    policy: Policy,
    steps: int = STEPS,
    worker: Callable[[Gateway, Path, int], Worker] = Worker,
) -> dict[str, Any]:
    """Trains in ``work``, from the newest whole checkpoint; what came of it."""
    async_grpo = load_async_grpo()
    trainer_module: Any = sys.modules[async_grpo.trainer.__module__]
    trainer_module.get_peak_flops_per_device = lambda *_: 1e12
    found = [file.parent for file in work.glob(f"trained/checkpoint-*/{WHOLE}")]
    newest = max(found, key=lambda one: int(one.name.split("-")[1]), default=None)
    first = 0 if newest is None else int(newest.name.split("-")[1])
    model = work / "model"
    policy.model.save_pretrained(model)
    engine = ENGINE.build()
    settings = GatewaySettings(
        upstream=upstream, directory=work / "gateway", rollouts=ROLLOUTS, groups=GROUPS
    )
    with Gateway(engine, settings) as gateway:
        rollout_worker = worker(gateway, work / "sampled.jsonl", first)
        weights = Weights(policy)
        trainer = build_async_trainer(
            rollout_worker,
            weights,
            model=str(model),
            args=async_grpo.config(
                output_dir=str(work / "trained"),
                per_device_train_batch_size=ROLLOUTS * GROUPS,
                gradient_accumulation_steps=1,
                num_generations=ROLLOUTS,
                max_steps=steps,
                learning_rate=1e-2,
                lr_scheduler_type="constant",
                token_budget=-1,
                max_staleness=1000,
                dtype="float32",
                bf16=False,
                gradient_checkpointing=False,
                use_cpu=True,
                logging_steps=1,
                save_strategy="steps",
                save_steps=2,
                report_to=[],
            ),
            train_dataset=Dataset.from_list(tiny_trl.questions(8)),
            processing_class=policy.tokenizer,
        )
        AttentionInterface.register(TREE, attention)
        trainer.add_callback(Saved())
        trainer.train(resume_from_checkpoint=None if newest is None else str(newest))
        assert rollout_worker.failure is None, rollout_worker.failure
    history = trainer.state.log_history
    return {
        "weights": digest(*trainer.model.state_dict().values()),
        "step": trainer.state.global_step,
        "losses": [entry["loss"] for entry in history if "loss" in entry],
        "first": history[0],
        "sent": weights.sent,
        "state": engine.state_dict(),
        "events": list(engine.log),
    }


def main(directory: Path) -> None:
    """Goes on with what is there, and leaves ``result.json``."""
    settings = json.loads((directory / "settings.json").read_text())
    policy = Policy()
    found = trained(directory / WORK, policy.url, policy, **settings)
    kept = ("weights", "step", "losses", "state", "events")
    (directory / "result.json").write_text(json.dumps({name: found[name] for name in kept}))
