"""TRL's GRPOTrainer with an instruction that evolves beside the policy.

pip install -e ".[trl,lm]" -c constraints.txt && export OPENAI_API_KEY=...
python examples/quickstart_trl.py --model Qwen/Qwen2.5-0.5B-Instruct --lm openai/gpt-5-mini
"""

import argparse
import re

import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

import evoprompt
from evoprompt.plugins import build

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", default="Qwen/Qwen2.5-0.5B-Instruct")
parser.add_argument("--lm", default="openai/gpt-5-mini", help="who writes instructions")
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--tokens", type=int, default=128, help="most tokens of an answer")
parser.add_argument("--evolve-every", type=int, default=15, help="steps")
parser.add_argument("--output", default="runs/quickstart")
options = parser.parse_args()

rows = [
    {
        "prompt": [{"role": "user", "content": f"What is {a} times {b}, plus {a}?"}],
        "answer": str(a * b + a),
    }
    for a in range(11, 60)
    for b in range(11, 60)
]


def right(
    completions: list[list[dict[str, str]]], answer: list[str], **columns: object
) -> list[float | None]:
    """1 where the last number of an answer is the right one."""
    completion_numbers = [
        re.findall(r"\d+", completion[-1]["content"]) for completion in completions
    ]
    return [
        float(bool(numbers) and numbers[-1] == expected)
        for numbers, expected in zip(completion_numbers, answer, strict=True)
    ]


trainer = GRPOTrainer(
    model=options.model,
    reward_funcs=right,
    train_dataset=Dataset.from_list(rows).shuffle(seed=0),
    args=GRPOConfig(
        output_dir=options.output,
        max_steps=options.steps,
        per_device_train_batch_size=16,  # rollouts
        num_generations=4,  # of them for each question
        max_completion_length=options.tokens,
        learning_rate=1e-6,
        logging_steps=1,
        report_to="none",
        use_cpu=not torch.cuda.is_available(),
        bf16=torch.cuda.is_available(),
    ),
)
engine = evoprompt.Engine(
    ["Answer the question."],
    proposer=build("proposer", {"name": "reflection", "lm": {"model": options.lm}}),
    config=evoprompt.EngineConfig(
        population_size=4, parents=2, prune_every=5, evolve_every=options.evolve_every,
        verify_questions=8,
    ),
)  # fmt: skip
evoprompt.attach(trainer, engine)
trainer.train()
print(engine.best.text)
