"""Server and controller of the real agent-lightning 1.0 run an agent through the gateway.

Run by the session agent_lightning. Its trainer is veRL with servers of vLLM; the test does what
that does over HTTP: it registers a model, asks for rollouts, and reads what was noted.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from upstream import Reply, serving
from waiting import wait_for

import evoprompt
from evoprompt.gateway import Gateway, GatewaySettings

ROLLOUTS, QUESTIONS, AGL = 2, 3, "sk-agl-0123456789"
SEEDS = ("Guess the number.", "Multiply.")


def reply(body: dict[str, Any]) -> Reply:
    """Right under one instruction; tokens are told as vLLM does when it is asked to."""
    assert body["return_token_ids"] is True
    system, question = (message["content"] for message in body["messages"])
    number = int(question.split()[2])
    return Reply(str(7 * number) if system == "Multiply." else "12")


@contextmanager
def running(*arguments: str, **environment: str) -> Iterator[None]:
    command = [sys.executable, "-m", *arguments]
    with subprocess.Popen(command, env={**os.environ, **environment}) as process:
        try:
            yield
        finally:
            process.terminate()


def test_the_trainer_is_shown_what_was_sampled_under_the_instruction(
    tmp_path: Path, monkeypatch: Any
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    port = url.rsplit(":", 1)[1]
    engine = evoprompt.Engine(SEEDS)
    notes = f"hydra.run.dir={tmp_path}/hydra"
    server = ("agentlightning.server", f"port={port}", f"key={AGL}", "host=127.0.0.1", notes)
    controller = ("agentlightning.controller", "runner_type=local", notes)
    headers = {"Authorization": f"Bearer {AGL}"}
    with (
        serving() as upstream,
        Gateway(
            engine,
            GatewaySettings(
                upstream="http://127.0.0.1:9/v1",
                directory=tmp_path / "g",
                rollouts=ROLLOUTS,
                groups=QUESTIONS,
                upstreams=(url,),
            ),
        ) as gateway,
        running(*server, "default_proxy.model_name=policy"),
        httpx.Client(base_url=url, headers=headers, timeout=60) as trainer,
    ):
        upstream.reply = reply
        base = gateway.url.removesuffix("/v1")
        wait_for(lambda: up(trainer))
        agents = {"GATEWAY": base, "PYTHONPATH": "examples"}
        agents["EVOPROMPT_GATEWAY_TOKEN"] = gateway.token
        places = ("local_runner.poll_interval=1", f"agl_server.url={url}", f"agl_server.key={AGL}")
        with running(*controller, *places, **agents):
            model = {"model": "policy", "endpoint": upstream.url}
            trainer.post("/api/models", json=[model]).raise_for_status()
            asked = [
                {
                    "input": {
                        "id": f"q{n}",
                        "question": f"What is {n} times 7?",
                        "answer": f"{7 * n}",
                    },
                    "config": {
                        "local": {
                            "agent_class": "agent_lightning.Calculator",
                            "env_map": {"TASK": "input"},
                        }
                    },
                }
                for n in range(QUESTIONS)
                for _ in range(ROLLOUTS)
            ]
            made = trainer.post("/api/rollouts", json=asked).raise_for_status().json()
            ids = [one["rollout_id"] for one in made]
            ended = wait_for(lambda: over(trainer, len(ids)))
        events = {one: trainer.get(f"/api/rollouts/{one}/events").json() for one in ids}
    assert {item["state"] for item in ended} == {"succeeded"}
    seen = set()
    for noted in events.values():
        (call,) = (one["data"] for one in noted if one["event_type"] == "model_request")
        (reward,) = (one["data"]["value"] for one in noted if one["event_type"] == "reward")
        system = call["request"]["messages"][0]
        assert system["role"] == "system"
        assert reward == float(system["content"] == "Multiply.")
        seen.add(system["content"])
    assert seen == {*SEEDS}
    assert engine.step == 1
    best = max(engine.candidate_stats(), key=lambda stats: stats.weight)
    assert best.candidate.instruction == "Multiply."


def up(trainer: httpx.Client) -> bool:
    """Whether the server answers."""
    try:
        return trainer.get("/healthz").is_success
    except httpx.TransportError:
        return False


def over(trainer: httpx.Client, count: int) -> list[dict[str, Any]]:
    """What became of the rollouts, if all are over."""
    page = trainer.get("/api/rollouts/terminal").raise_for_status().json()
    return list(page["items"]) if page["total_terminal"] == count else []
