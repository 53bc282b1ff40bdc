"""The extra ``endpoint`` alone: an agent whose policy answers from a server on this machine."""

import json

from evoprompt.agents import Agent, Limits, TagProtocol, play
from evoprompt.agents.endpoint import ChatEndpoint
from evoprompt.testing.openai_server import OpenAIServer

with OpenAIServer(default="<answer> 5 </answer>") as server:
    policy = ChatEndpoint("scripted", server.url)
    tags = TagProtocol("count", "text", "answer", opening="\n[", closing="]\n")
    agent = Agent(tags, policy.tokenizer, Limits(calls=1, turn_tokens=50, observation_tokens=50))
    question = json.dumps([{"role": "user", "content": "How long is the word apple?"}])
    prompt = policy.tokenizer.encode(question, add_special_tokens=False)
    (episode,) = play([agent.play(prompt)], policy, lambda calls: ["5" for _ in calls])
    assert server.requests
assert episode.answer == "5", episode
print(episode.end)
