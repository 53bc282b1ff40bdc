"""An agent of smolagents, or of OpenAI's Agents SDK, under two instructions.

    pip install -e ".[gateway]" "smolagents[openai]" openai-agents
    python examples/foreign_agent.py smolagents http://127.0.0.1:8000/v1 MODEL runs/foreign

Neither knows of evoprompt: base URL and API key are those of its conversation.
"""

from __future__ import annotations

import sys
from pathlib import Path

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from smolagents import OpenAIServerModel, ToolCallingAgent, tool

import evoprompt
from evoprompt.gateway import GatewaySettings

ROLLOUTS, STEPS = 2, 3


def multiply(a: int, b: int) -> int:
    """Multiplies two numbers.

    Args:
        a: one of them.
        b: the other one.
    """
    return a * b


def smolagents(question: str, model: str, base_url: str, key: str) -> str:
    """Return the answer of an agent of smolagents."""
    policy = OpenAIServerModel(model, api_base=base_url, api_key=key)
    agent = ToolCallingAgent([tool(multiply)], policy, max_steps=4, verbosity_level=0)
    return str(agent.run(question))


def openai(question: str, model: str, base_url: str, key: str) -> str:
    """Return the answer of an agent of OpenAI's Agents SDK."""
    policy = OpenAIChatCompletionsModel(model, AsyncOpenAI(base_url=base_url, api_key=key))
    agent = Agent("calculator", model=policy, tools=[function_tool(multiply)])
    return str(Runner.run_sync(agent, question, max_turns=4).final_output)


def main(kind: str, upstream: str, model: str, directory: str) -> None:
    """Rewards right answers, and says how good the instructions are."""
    set_tracing_disabled(True)  # the SDK would tell OpenAI of each run
    answer = {"smolagents": smolagents, "openai": openai}[kind]
    engine = evoprompt.Engine(["Guess the number.", "Use the tool for every product."])
    settings = GatewaySettings(
        upstream=upstream, directory=Path(directory), rollouts=ROLLOUTS, groups=STEPS
    )
    with evoprompt.Gateway(engine, settings) as gateway:
        for step in range(STEPS):
            for number in range(STEPS):
                right = str(7 * (number + 2))
                text = f"What is {number + 2} times 7?"
                question = evoprompt.Question(f"q{number}", text, (right,))
                for _ in range(ROLLOUTS):
                    key = gateway.conversation(question, f"{step}/{number}")
                    gateway.reward(key, float(answer(text, model, gateway.url, key) == right))
        for stats in engine.candidate_stats():
            print(f"{stats.weight:.2f} {stats.candidate.text}")


if __name__ == "__main__":
    main(*sys.argv[1:])
