"""The instruction of a model that is not trained, behind any server of OpenAI's chat completions.

pip install -e ".[endpoint,lm]" -c constraints.txt && export OPENAI_API_KEY=...
python examples/quickstart_frozen.py --model gpt-4.1-nano --lm openai/gpt-5-mini
"""

import argparse
import json
import random
import re
from collections.abc import Sequence

from evoprompt import Assignment, Engine, EngineConfig, Question, Trajectory
from evoprompt.agents import Agent, AnswerProtocol, Limits, play
from evoprompt.agents.endpoint import ChatEndpoint
from evoprompt.plugins import build

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", default="gpt-4.1-nano", help="as the server names it")
parser.add_argument("--server", default="https://api.openai.com/v1")
parser.add_argument("--lm", default="openai/gpt-5-mini", help="who writes instructions")
parser.add_argument("--steps", type=int, default=24)
options = parser.parse_args()

rng = random.Random(0)
questions = [
    Question(f"{a}x{b}", f"What is {a} times {b}, plus {a}?", (str(a * b + a),))
    for a in range(11, 60)
    for b in range(11, 60)
]
policy = ChatEndpoint(options.model, options.server)
agent = Agent(AnswerProtocol(), policy.tokenizer, Limits(0, turn_tokens=256, observation_tokens=0))


def prompt(assignment: Assignment) -> list[int]:
    """The messages of a question, with the instruction as the system's."""
    messages = [
        {"role": "system", "content": assignment.candidate.text},
        {"role": "user", "content": assignment.question.text},
    ]
    return policy.tokenizer.encode(json.dumps(messages), add_special_tokens=False)


def rollout(assignments: Sequence[Assignment]) -> list[Trajectory]:
    """Asks the model; 1 where the last number that it says is the right one."""
    asked = [(one, index) for one in assignments for index in range(one.rollouts)]
    episodes = play([agent.play(prompt(one)) for one, _ in asked], policy, lambda calls: [])
    found = []
    for (one, index), episode in zip(asked, episodes, strict=True):
        numbers = re.findall(r"\d+", episode.answer or "")
        right = float(numbers[-1:] == [*one.question.answers])
        reward = None if episode.end == "failed" else right
        found.append(Trajectory(one, reward, index, tuple(episode.turns)))
    return found


engine = Engine(
    ["Answer the question."],
    proposer=build("proposer", {"name": "reflection", "lm": {"model": options.lm}}),
    config=EngineConfig(
        population_size=4, parents=2, prune_every=4, evolve_every=8, verify_questions=8
    ),
)
engine.check(probe=True)
for step in range(options.steps):
    report = engine.tell(rollout(engine.ask(rng.sample(questions, 8), rollouts=1)))
    engine.evolve(rollout)  # does nothing until it is due
    print(f"step {step}: reward {report.reward}, best: {engine.best.text}")
print(engine.best.text)
