"""An agent that agent-lightning 1.0 runs, under instructions that a gateway chooses.

    pip install -e ".[gateway]" "agentlightning>=1" openai        # Python 3.12
    export EVOPROMPT_GATEWAY_TOKEN=...    # for the gateway and the controller
    evoprompt gateway gateway.yaml

In gateway.yaml, ``upstreams`` holds the URL of agent-lightning's proxy, which the agent names.
``agent_class`` of a rollout is ``agent_lightning.Calculator``, its ``env_map`` ``{TASK: input}``.
What the model samples is noted by agent-lightning's proxy, behind the gateway: its trainer sees the
instruction as a part of the prompt.
"""

from __future__ import annotations

import json
import os

import httpx
from openai import OpenAI

GATEWAY = os.environ.get("GATEWAY", "http://127.0.0.1:8080")
TRAINER = {"Authorization": f"Bearer {os.environ['EVOPROMPT_GATEWAY_TOKEN']}"}


def answer(question: str, client: OpenAI) -> str:
    """Return the agent's answer; nothing here depends on evoprompt."""
    came = client.chat.completions.create(
        model="policy", messages=[{"role": "user", "content": question}]
    )
    return str(came.choices[0].message.content)


class Calculator:
    """Rollout that the controller runs in a process of its own."""

    def run(self) -> None:
        """Answer the question; send the reward to the gateway and to the controller."""
        task, token = json.loads(os.environ["TASK"]), os.environ["AGL_KEY"] or "none"
        request = {
            "question": {"id": task["id"], "text": task["question"], "answers": [task["answer"]]},
            "upstream": os.environ["AGL_OPENAI_BASE_URL"],
        }
        response = httpx.post(f"{GATEWAY}/conversations", json=request, headers=TRAINER)
        response.raise_for_status()
        key = response.json()["key"]
        key_header = {"X-Evoprompt-Conversation": key}
        client = OpenAI(base_url=f"{GATEWAY}/v1", api_key=token, default_headers=key_header)
        reward = float(answer(task["question"], client) == task["answer"])
        reward_url = f"{GATEWAY}/conversations/{key}/reward"
        httpx.post(reward_url, json={"reward": reward}, headers=TRAINER).raise_for_status()
        event = {"event_type": "reward", "data": {"value": reward}}
        headers = {"Authorization": f"Bearer {token}"}
        httpx.post(os.environ["AGL_EVENT_URL"], json=event, headers=headers).raise_for_status()
