"""The extra ``gateway`` alone: two conversations before a server on this machine."""

import json
import tempfile
import urllib.request

import evoprompt
from evoprompt.gateway import GatewaySettings
from evoprompt.testing.openai_server import OpenAIServer

engine = evoprompt.Engine(["Answer with the number alone."])
with OpenAIServer(default="4") as server, tempfile.TemporaryDirectory() as folder:
    settings = GatewaySettings(upstream=server.url, directory=folder, rollouts=2, groups=1)
    with evoprompt.Gateway(engine, settings) as gateway:
        for reward in (1.0, 0.0):
            key = gateway.conversation(evoprompt.Question("q", "2 + 2?"), "g")
            asked = {"model": "m", "messages": [{"role": "user", "content": "2 + 2?"}]}
            request = urllib.request.Request(
                f"{gateway.url}/chat/completions",
                json.dumps(asked).encode(),
                {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request) as answer:
                assert json.load(answer)["choices"][0]["message"]["content"] == "4"
            assert gateway.reward(key, reward) == ""
    assert [message["role"] for message in server.requests[0].body["messages"]] == [
        "system",
        "user",
    ]
assert engine.step == 1
print(engine.best.text)
