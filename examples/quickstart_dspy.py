"""A DSPy program whose instructions and tool descriptions evolve, behind any server of OpenAI's.

pip install -e ".[lm]" -c constraints.txt && export OPENAI_API_KEY=...
python examples/quickstart_dspy.py --model openai/gpt-4.1-nano --lm openai/gpt-5-mini
"""

import argparse
import random
from typing import Any

import dspy

from evoprompt import CoEvolve

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", default="openai/gpt-4.1-nano", help="that plays the agent")
parser.add_argument("--lm", default="openai/gpt-5-mini", help="who writes texts")
parser.add_argument("--budget", type=int, default=300, help="rollouts, validation included")
parser.add_argument("--usd", type=float, default=1.0, help="most that the writer may cost")
parser.add_argument("--save", default="agent.json")
options = parser.parse_args()

rng = random.Random(0)
stock = {f"item {n}": rng.randrange(100, 999) for n in range(40)}


def look_up(item: str) -> str:
    """Looks something up."""
    return f"{item}: {stock[item]} in stock" if item in stock else "nothing is known of that"


examples = [
    dspy.Example(question=f"How many pieces of {item.title()} are there?", answer=str(count))
    for item, count in stock.items()
]
examples = [example.with_inputs("question") for example in examples]


def metric(gold: Any, pred: Any, trace: Any = None, name: Any = None, part: Any = None) -> Any:
    """1 where the answer is the number; the feedback shows what the tool said."""
    right = pred.answer.strip() == gold.answer
    seen = [str(said) for name, said in pred.trajectory.items() if name.startswith("observation")]
    feedback = f"The answer is {gold.answer}. The tool was asked and said: {'; '.join(seen)}"
    return dspy.Prediction(score=float(right), feedback="" if right else feedback)


agent = dspy.ReAct("question -> answer", tools=[look_up], max_iters=3)
optimizer = CoEvolve(
    metric,
    budget=options.budget,
    lm={"model": options.lm, "budget": {"usd": options.usd}},
    track_stats=True,
)
with dspy.context(lm=dspy.LM(options.model)):
    better = optimizer.compile(agent, trainset=examples[:20], valset=examples[20:])

found = better.detailed_results
for rollouts, value, _ in found.result.curve:
    print(f"{rollouts} rollouts: {value:.2f}")
print(f"stopped: {found.result.stopped}; tokens of the agent: {found.usage}")
print(better.tools["look_up"].desc)
better.save(options.save)
