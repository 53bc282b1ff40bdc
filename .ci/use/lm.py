"""The extra ``lm`` alone: a proposer asks a server on this machine."""

from evoprompt.components import BuildContext
from evoprompt.plugins import build
from evoprompt.testing import OpenAIServer, chat_fields, samples

with OpenAIServer(default=chat_fields(analysis="Too long.", instructions=["Be brief."])) as server:
    settings = {"name": "reflection", "lm": {"model": "openai/scripted", "api_base": server.url}}
    proposals = build("proposer", settings, BuildContext()).propose(samples.request())
    assert server.requests
    assert proposals, "no proposal"
print(proposals[0].text)
