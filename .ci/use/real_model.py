"""A real model: ``real_model.py train MODEL`` under TRL, ``real_model.py optimize MODEL`` served.

``train`` takes two steps with LoRA, the chat template and tool calls while an instruction evolves;
``optimize`` improves the instruction of the same model behind ``transformers serve``.
"""

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

import evoprompt
from evoprompt import EngineConfig, Proposal, ProposalRequest, Proposer
from evoprompt.log.evaluation import Score

SUMS = [(a, b) for a in range(2, 6) for b in range(6, 9)]
CALL = '<tool_call>\n{{"name": "add", "arguments": {{"first": {}, "second": {}}}}}\n</tool_call>'
SEED = "Call the function add, then answer."


def shown(first: int, second: int) -> list[dict[str, str]]:
    """A question and its call, as the model was never taught to make one."""
    return [
        {"role": "user", "content": f"How much is {first} and {second}?"},
        {"role": "assistant", "content": CALL.format(first, second)},
        {"role": "user", "content": f"<tool_response>\n{first + second}\n</tool_response>"},
        {"role": "assistant", "content": str(first + second)},
    ]


SHOWN = [*shown(2, 3), *shown(4, 1), *shown(7, 9)]


class Shorter(Proposer):
    """Proposes sentences of a list, one after the other."""

    def __init__(self) -> None:
        self.left = ["Answer with one word.", "Name the city alone.", "Be brief.", "Be exact."]

    def propose(self, request: ProposalRequest) -> list[Proposal]:
        """The parents' texts with one more sentence each."""
        return [
            Proposal.of(f"{one.candidate.text} {self.left.pop(0)}", one.candidate)
            for one in request.parents
            if self.left
        ]


def add(first: int, second: int) -> int:
    """The sum of two numbers.

    Args:
        first: one number.
        second: the other.
    """
    return first + second


def train(model: str) -> None:
    """Two steps of GRPO on adapters, with a tool."""
    import torch
    from datasets import Dataset
    from evoprompt_trl.precision import native_bf16
    from peft import LoraConfig
    from transformers import AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer
    from trl.chat_template_utils import qwen3_schema  # calls in the folder's template are as there

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")
    tokenizer.response_schema = qwen3_schema
    called: list[int] = []
    said_last: list[object] = []

    def reward(completions: list[list[dict[str, object]]], **columns: object) -> list[float]:
        called.extend(sum(one["role"] == "tool" for one in said) for said in completions)
        said_last[:] = completions
        return [1 / (1 + len(str(said[-1]["content"]))) for said in completions]

    rows = [
        {"prompt": [*SHOWN, {"role": "user", "content": f"How much is {a} and {b}?"}]}
        for a, b in SUMS
    ]
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            reward_funcs=reward,
            tools=[add],
            train_dataset=Dataset.from_list(rows),
            peft_config=LoraConfig(
                r=4,
                target_modules=["q_proj", "v_proj"],
                layers_to_transform=[28, 29],  # the last of 30, for a short backward pass
            ),
            args=GRPOConfig(
                folder,
                max_steps=2,
                per_device_train_batch_size=4,
                num_generations=2,
                max_completion_length=96,
                max_tool_calling_iterations=1,
                temperature=0.5,
                beta=0.0,
                use_cpu=True,
                bf16=native_bf16("cpu"),
                gradient_checkpointing=False,
                report_to="none",
            ),
        )
        before = {name: one.detach().clone() for name, one in trainer.model.named_parameters()}
        config = EngineConfig(prune_every=1, evolve_every=1, verify_questions=1, accept="top")
        engine = evoprompt.Engine([SEED], proposer=Shorter(), config=config)
        evoprompt.attach(trainer, engine)
        trainer.train()
        changed = [
            name for name, one in trainer.model.named_parameters() if not one.equal(before[name])
        ]
        exported = Path(folder) / "export"
        subprocess.run(["evoprompt", "export", folder, exported], check=True)
        answers_the_same(trainer, engine.best.text, exported)
    assert changed, "nothing was trained"
    assert all("lora_" in name for name in changed), changed
    assert sum(called), f"no tool was called; the last rollouts: {said_last}"
    assert engine.metrics()["generations"] > 0
    assert engine.metrics()["generations_failed"] == 0
    print(f"{sum(called)} calls in {len(called)} rollouts; {len(changed)} adapters trained")
    print(engine.best.text)


def answers_the_same(trainer: Any, instruction: str, export: Path) -> None:
    """The export, asked by its user, says token by token what the trained policy says."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    question = {"role": "user", "content": "How much is 7 and 8?"}
    asked = [{"role": "system", "content": instruction}, question]
    by_training = trainer.processing_class.apply_chat_template(
        asked, tools=[add], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    by_user = AutoTokenizer.from_pretrained(export).apply_chat_template(
        [question], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    assert torch.equal(by_user["input_ids"], by_training["input_ids"]), "asked otherwise"
    loaded = AutoModelForCausalLM.from_pretrained(export, dtype=trainer.model.dtype).eval()
    said = [
        policy.generate(**by_user, max_new_tokens=16, do_sample=False)
        for policy in (trainer.model.eval(), loaded)
    ]
    assert torch.equal(*said), f"answered otherwise: {said}"
    print(f"the export says the very {said[0].shape[1] - by_user['input_ids'].shape[1]} tokens")


def optimize(model: str) -> None:
    """A few proposals for the model behind a local server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["transformers", "serve", model, "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen([*command, "--device", "cpu"])
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(f"{url}/health", server)

        def program(instruction: str, example: Mapping[str, str]) -> str:
            messages = [
                {"role": "system", "content": instruction},
                {"role": "user", "content": example["question"]},
            ]
            body = {"model": model, "messages": messages, "max_tokens": 12, "temperature": 0.0}
            answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=120)
            answer.raise_for_status()
            return str(answer.json()["choices"][0]["message"]["content"])

        def metric(example: Mapping[str, str], output: str) -> Score:
            right = example["answer"] in output
            reward = float(right) / (1 + len(output.split()))
            return Score(reward, f"expected {example['answer']}, got {output}")

        places = {"France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Japan": "Tokyo"}
        places |= {"Austria": "Vienna", "Egypt": "Cairo", "Russia": "Moscow", "Cuba": "Havana"}
        examples = [
            {"question": f"What is the capital of {land}?", "answer": city}
            for land, city in places.items()
        ]
        result = evoprompt.optimize(
            "You are a helpful assistant.",
            examples[:4],
            metric,
            program=program,
            valset=examples[4:],
            proposer=Shorter(),
            budget=16,
        )
    finally:
        server.terminate()
        server.wait()
    assert len(result.curve) >= 1, "nothing was measured"
    assert result.value > 0, "the server's answers are no answers"
    print(f"{result.value:.3f} by {result.best.text!r}; {result.stopped}")


def wait_for(url: str, server: subprocess.Popen[bytes], seconds: float = 120) -> None:
    """Returns when the server is up."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        try:
            if httpx.get(url).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.5)
    raise SystemExit(f"transformers serve is not up after {seconds:.0f} seconds, or has ended")


if __name__ == "__main__":
    {"train": train, "optimize": optimize}[sys.argv[1]](str(Path(sys.argv[2]).resolve()))
