"""The extra ``lm`` alone: a proposer asks a server on this machine."""

from evoprompt.components import BuildContext
from evoprompt.plugins import build
from evoprompt.testing import samples
from evoprompt.testing.openai_server import OpenAIServer, chat_fields

answer = chat_fields(analysis="Too long.", candidates=["Be brief. <answer></answer>"])
with OpenAIServer(default=answer) as server:
    lm = {"model": "openai/scripted", "api_base": server.url}
    settings = {"name": "reflection", "lm": lm, "background": False}
    proposals = build("proposer", settings, BuildContext()).propose(samples.request())
    assert server.requests
    assert proposals, "no proposal"
print(proposals[0].text)
