"""A real AsyncGRPOTrainer on a CPU, whose rollouts are conversations through the gateway.

Run by the session newest_trl: the pinned TRL has another trainer of this name. Rollout worker and
weight transfer are protocols of the trainer. Two things of it need a GPU and are replaced: its
attention, a FlashAttention 3 kernel (``trl/experimental/async_grpo/packing.py``), and the speed of
the device, by which it reports its utilization.
"""

from __future__ import annotations

import json
import queue
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_trl
import torch
from transformers import AttentionInterface

import evoprompt
from evoprompt.gateway import Gateway, GatewaySettings

# By name, as mypy reads the pinned TRL, in which it is another one.
async_grpo: Any = import_module("trl.experimental.async_grpo")

ROLLOUTS, GROUPS, STEPS, TOKENS = 4, 2, 4, 8
TREE = "tree_fa3"
SEEDS = ["be brief", "think first", "look it up"]


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
                content = json.dumps(policy.answer(body)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, body: Mapping[str, Any]) -> dict[str, Any]:
        messages = body["messages"]
        ids = self.tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=False
        )
        assert isinstance(ids, list)
        said: list[int] = []
        told: list[float] = []
        with self.lock, torch.no_grad():
            self.systems.append(messages[0]["content"])
            for _ in range(TOKENS):
                logits = self.model(torch.tensor([[*ids, *said]])).logits[0, -1].log_softmax(-1)
                said.append(int(torch.multinomial(logits.exp(), 1)))
                told.append(float(logits[said[-1]]))
        message = {"role": "assistant", "content": self.tokenizer.decode(said)}
        choice = {"index": 0, "message": message, "finish_reason": "length", "token_ids": said}
        choice["logprobs"] = {"content": [{"logprob": one} for one in told]}
        return {"choices": [choice], "prompt_token_ids": ids}


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
    """Has conversations through the gateway, and hands what was sampled to the trainer."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.rollout_buffer: queue.Queue[Any] = queue.Queue(maxsize=16)
        self.metrics_queue: queue.Queue[Any] = queue.Queue()
        self.version = 0
        self.failure: BaseException | None = None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.over.set()
        self.thread.join()

    def update_model_version(self, model_version: int) -> None:
        self.version = model_version

    def check_health(self, stale_after_s: float) -> None:
        if self.failure is not None:
            raise self.failure

    def work(self) -> None:
        try:
            for number, row in enumerate(tiny_trl.questions(1000)):
                if self.over.is_set():
                    return
                self.group(number, row["prompt"][0]["content"])
        except BaseException as error:
            self.failure = error

    def group(self, number: int, text: str) -> None:
        from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

        version, question = self.version, evoprompt.Question(text, text)
        came: list[tuple[dict[str, Any], float]] = []
        for _ in range(ROLLOUTS):
            key = self.gateway.conversation(question, f"{number}")
            asked = {"model": "policy", "messages": [{"role": "user", "content": text}]}
            request = urllib.request.Request(
                f"{self.gateway.url}/chat/completions",
                json.dumps(asked).encode(),
                {"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
            )
            with urllib.request.urlopen(request) as response:
                answer = json.load(response)
            words = answer["choices"][0]["message"]["content"].split()
            reward = sum(word in tiny_trl.COUNTRIES for word in words) / TOKENS
            self.gateway.reward(key, reward)
            came.append((answer, reward))
        mean = sum(reward for _, reward in came) / ROLLOUTS
        for answer, reward in came:
            choice, prompt = answer["choices"][0], answer["prompt_token_ids"]
            told = [one["logprob"] for one in choice["logprobs"]["content"]]
            fields: dict[str, Any] = {
                "prompt": [{"role": "user", "content": text}],
                "completion": [choice["message"]],
                "input_ids": np.array([*prompt, *choice["token_ids"]]),
                "completion_mask": np.array([0] * len(prompt) + [1] * len(told)),
                "old_log_probs": np.array([0.0] * len(prompt) + told, dtype=np.float32),
                "advantage": reward - mean,
                "model_version": version,
                "group_id": number,
                "metrics": {"reward": reward},
            }
            sample = RolloutSample(**fields)
            while not self.over.is_set():
                try:
                    self.rollout_buffer.put(sample, timeout=0.1)
                    break
                except queue.Full:
                    continue


def test_a_policy_and_its_instruction_are_trained_through_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datasets import Dataset
    from trl.experimental.async_grpo import async_grpo_trainer

    monkeypatch.setattr(async_grpo_trainer, "get_peak_flops_per_device", lambda *_: 1e12)
    folder = tmp_path / "model"
    tiny_trl.model().save_pretrained(folder)
    policy = Policy()
    engine = evoprompt.Engine(SEEDS)
    settings = GatewaySettings(
        upstream=policy.url, directory=tmp_path / "gateway", rollouts=ROLLOUTS, groups=GROUPS
    )
    with Gateway(engine, settings) as gateway:
        worker, weights = Worker(gateway), Weights(policy)
        trainer = async_grpo.AsyncGRPOTrainer(
            model=str(folder),
            args=async_grpo.AsyncGRPOConfig(
                output_dir=str(tmp_path / "trained"),
                per_device_train_batch_size=8,
                gradient_accumulation_steps=1,
                num_generations=ROLLOUTS,
                max_steps=STEPS,
                learning_rate=1e-2,
                token_budget=-1,
                max_staleness=1000,
                dtype="float32",
                bf16=False,
                gradient_checkpointing=False,
                use_cpu=True,
                save_strategy="no",
                report_to=[],
            ),
            train_dataset=Dataset.from_list(tiny_trl.questions(8)),
            processing_class=policy.tokenizer,
            rollout_worker=worker,
            weight_transfer=weights,
        )
        AttentionInterface.register(TREE, attention)
        before = {name: one.clone() for name, one in tiny_trl.model().state_dict().items()}
        trainer.train()
    policy.server.shutdown()
    policy.server.server_close()
    assert worker.failure is None
    assert trainer.state.global_step == STEPS
    assert weights.sent > STEPS // 2
    assert any(
        not torch.equal(before[name], one) for name, one in policy.model.state_dict().items()
    )
    assert engine.step >= STEPS * 8 // (ROLLOUTS * GROUPS)
    assert set(policy.systems) == {*SEEDS}
    told = [event for event in engine.log if event["event"] == "told"]
    assert all(event["unscored"] == 0 for event in told)
    # The trainer scored the prompts that the policy was given, instruction included: before the
    # first update both are the same policy.
    first = trainer.state.log_history[0]
    assert first["ratio"] == pytest.approx(1.0, abs=1e-4)
    assert first["kl"] == pytest.approx(0.0, abs=1e-4)
    again = evoprompt.Engine(SEEDS)
    with Gateway(again, settings):
        assert again.step == engine.step
        assert again.training_rollouts == engine.training_rollouts
