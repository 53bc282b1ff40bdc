"""The instruction of a model that is not trained, behind any server of OpenAI's chat completions.

pip install -e ".[endpoint,lm,report]" -c constraints.txt && export OPENAI_API_KEY=...
python examples/quickstart_frozen.py --model gpt-4.1-nano --lm openai/gpt-5-mini
"""

import argparse
import os
import random
import re

import httpx

import evoprompt
from evoprompt.log.evaluation import Score

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", default="gpt-4.1-nano", help="as the server names it")
parser.add_argument("--server", default="https://api.openai.com/v1")
parser.add_argument("--lm", default="openai/gpt-5-mini", help="who writes instructions")
parser.add_argument("--budget", type=int, default=500, help="rollouts, validation included")
parser.add_argument("--directory", help="new folder, to look at or to go on from")
options = parser.parse_args()

rng = random.Random(0)
pairs = [(rng.randrange(11, 99), rng.randrange(11, 99)) for _ in range(120)]
examples = [
    {"question": f"What is {a} times {b}, plus {a}?", "answer": str(a * b + a)} for a, b in pairs
]
headers = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}"}
client = httpx.AsyncClient(headers=headers, timeout=60)


async def program(instruction: str, example: dict[str, str]) -> str:
    """Asks the model."""
    messages = [
        {"role": "system", "content": instruction},
        {"role": "user", "content": example["question"]},
    ]
    body = {"model": options.model, "messages": messages}
    answer = await client.post(f"{options.server}/chat/completions", json=body)
    answer.raise_for_status()
    return str(answer.json()["choices"][0]["message"]["content"])


def metric(example: dict[str, str], output: str) -> Score:
    """1 where the last number that it says is the right one."""
    numbers = re.findall(r"\d+", output.replace(",", ""))
    if numbers[-1:] == [example["answer"]]:
        return Score(1.0)
    return Score(0.0, f"The last number must be {example['answer']}.")


result = evoprompt.optimize(
    "Answer the question.",
    examples[:60],
    metric,
    program=program,
    valset=examples[60:],
    lm=options.lm,
    budget=options.budget,
    directory=options.directory,
)
for rollouts, value, _ in result.curve:
    print(f"{rollouts} rollouts: {value:.2f}")
print(f"stopped: {result.stopped}")
print(result.best.text)
