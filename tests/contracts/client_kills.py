"""Conversations of clients that know nothing of evoprompt, through a gateway that may be killed.

Each client asks one question a conversation, in its own protocol. The upstream answers with the end
of the instruction that it has read, so that rewards depend on instructions.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

from contract_runs import EngineSpec
from faults import WORK
from gateway_kills import reward_of

from evoprompt.gateway import Gateway, GatewaySettings, UnknownConversationError
from evoprompt.support.errors import InputError
from evoprompt.types import Question

ROLLOUTS, GROUPS = 2, 2
ENGINE = EngineSpec(
    seeds=("be brief", "think first"),
    settings={"population_size": 3, "prune_every": 2, "evolve_every": 1},
)
MODEL = "gpt-4.1-mini"

# By name, as mypy reads none of them.
openai: Any = import_module("openai")
anthropic: Any = import_module("anthropic")
agents: Any = import_module("agents")
smolagents: Any = import_module("smolagents")


# ------------------------------------------------------------------------------------- the clients


def ask_chat(text: str, url: str, key: str, *, stream: bool) -> str:
    """Ask by OpenAI's SDK, with chat completions."""
    with openai.OpenAI(base_url=url, api_key=key) as client:
        messages = [{"role": "user", "content": text}]
        answer = client.chat.completions.create(model=MODEL, messages=messages, stream=stream)
        if not stream:
            return str(answer.choices[0].message.content)
        return "".join(chunk.choices[0].delta.content or "" for chunk in answer if chunk.choices)


def ask_responses(text: str, url: str, key: str, *, stream: bool) -> str:
    """Ask by OpenAI's SDK, with responses."""
    with openai.OpenAI(base_url=url, api_key=key) as client:
        answer = client.responses.create(model=MODEL, input=text, stream=stream)
        if not stream:
            return str(answer.output_text)
        deltas = [event for event in answer if event.type == "response.output_text.delta"]
        return "".join(event.delta for event in deltas)


def ask_anthropic(text: str, url: str, key: str, *, stream: bool) -> str:
    """Ask by Anthropic's SDK, which adds ``/v1`` itself."""
    base_url = url.removesuffix("/v1")
    with anthropic.Anthropic(base_url=base_url, api_key=key) as client:
        request = {
            "model": MODEL,
            "max_tokens": 99,
            "messages": [{"role": "user", "content": text}],
        }
        if not stream:
            return str(client.messages.create(**request).content[0].text)
        with client.messages.stream(**request) as events:
            return "".join(events.text_stream)


def ask_agents(text: str, url: str, key: str, *, stream: bool, model_class: str) -> str:
    """Ask by OpenAI's Agents SDK."""
    agents.set_tracing_disabled(True)  # the SDK would report each run to OpenAI

    async def run() -> str:
        async with openai.AsyncOpenAI(base_url=url, api_key=key) as client:
            model = getattr(agents, model_class)(MODEL, client)
            agent = agents.Agent("answers", instructions="Be kind.", model=model)
            if not stream:
                return str((await agents.Runner.run(agent, text)).final_output)
            running = agents.Runner.run_streamed(agent, text)
            async for _ in running.stream_events():
                pass
            return str(running.final_output)

    return asyncio.run(run())


def ask_smolagents(text: str, url: str, key: str, *, stream: bool) -> str:
    """Ask by an agent of smolagents, which answers by a tool."""
    model = smolagents.OpenAIServerModel(MODEL, api_base=url, api_key=key)
    agent = smolagents.ToolCallingAgent(
        [], model, max_steps=2, verbosity_level=0, stream_outputs=stream
    )
    return str(agent.run(text))


Client = Callable[..., str]
CLIENTS: dict[str, tuple[Client, Mapping[str, Any]]] = {
    "openai, chat": (ask_chat, {}),
    "openai, responses": (ask_responses, {}),
    "anthropic": (ask_anthropic, {}),
    "openai-agents, chat": (ask_agents, {"model_class": "OpenAIChatCompletionsModel"}),
    "openai-agents, responses": (ask_agents, {"model_class": "OpenAIResponsesModel"}),
    "smolagents": (ask_smolagents, {}),
}


# ------------------------------------------------------------------------------------ the upstream


def instruction_of(body: Mapping[str, Any]) -> str:
    """Return the end of the instruction that a request of any protocol has."""
    items = body.get("messages") or body.get("input")
    first = items[0] if isinstance(items, list) else {}
    message = first.get("content") if first.get("role") in ("system", "developer") else ""
    content: Any = body.get("system") or body.get("instructions") or message
    texts = content if isinstance(content, str) else "".join(part["text"] for part in content)
    return texts[-60:]


def chat(body: Mapping[str, Any], text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return an answer of chat completions, whole and in parts; by a tool if one is for answers."""
    shared: dict[str, Any] = {"id": "c1", "created": 1, "model": MODEL}
    delta: dict[str, Any] = {"role": "assistant", "content": text}
    parts: list[dict[str, Any]] = [{"content": text[:3]}, {"content": text[3:]}]
    end = "stop"
    if any(tool["function"]["name"] == "final_answer" for tool in body.get("tools") or ()):
        function = {"name": "final_answer", "arguments": json.dumps({"answer": text})}
        call = {"id": "call_1", "type": "function", "function": function}
        delta = {"role": "assistant", "content": None, "tool_calls": [call]}
        parts, end = [{"tool_calls": [{"index": 0, **call}]}], "tool_calls"
    usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
    choice = {"index": 0, "message": delta, "finish_reason": end, "logprobs": None}
    whole = {**shared, "object": "chat.completion", "choices": [choice], "usage": usage}
    deltas: list[dict[str, Any]] = [{"delta": part, "finish_reason": None} for part in parts]
    deltas.append({"delta": {}, "finish_reason": end})
    shared |= {"object": "chat.completion.chunk"}
    events = [{**shared, "choices": [{"index": 0, **fields}]} for fields in deltas]
    return whole, events


def responses(body: Mapping[str, Any], text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return an answer of responses, whole and in parts."""
    del body
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"id": "m1", "type": "message", "role": "assistant", "status": "completed"}
    usage: dict[str, Any] = {
        **{"input_tokens": 5, "output_tokens": 3, "total_tokens": 8},
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    whole: dict[str, Any] = {
        **{"id": "r1", "object": "response", "created_at": 1, "model": MODEL, "tools": []},
        **{"status": "completed", "parallel_tool_calls": True, "tool_choice": "auto"},
        **{"output": [{**item, "content": [part]}], "usage": usage},
    }
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    place = {"item_id": "m1", "output_index": 0, "content_index": 0}
    deltas = [
        {"type": "response.output_text.delta", **place, "delta": delta, "logprobs": []}
        for delta in (text[:3], text[3:])
    ]
    new_item = {**item, "content": []}
    new_part = {**part, "text": ""}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": new_item},
        {"type": "response.content_part.added", **place, "part": new_part},
        *deltas,
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {"type": "response.output_item.done", "output_index": 0, "item": whole["output"][0]},
        {"type": "response.completed", "response": whole},
    ]
    return whole, [{**event, "sequence_number": number} for number, event in enumerate(events)]


def messages(body: Mapping[str, Any], text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return an answer of Anthropic's messages, whole and in parts."""
    del body
    usage = {"input_tokens": 5, "output_tokens": 3}
    block = {"type": "text", "text": text}
    shared = {"id": "m1", "type": "message", "role": "assistant", "model": MODEL, "usage": usage}
    whole: dict[str, Any] = {
        **shared,
        "content": [block],
        "stop_reason": "end_turn",
        "stop_sequence": None,
    }
    begun = {**whole, "content": [], "stop_reason": None}
    deltas = [
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": delta}}
        for delta in (text[:3], text[3:])
    ]
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {**block, "text": ""}},
        *({**delta, "index": 0} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]
    return whole, events


class Handler(BaseHTTPRequestHandler):
    """Server of three protocols, whole and as a stream."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        protocol = {"/v1/responses": responses, "/v1/messages": messages}.get(self.path, chat)
        whole, events = protocol(body, f"Said: {instruction_of(body)}")
        content, kind = json.dumps(whole).encode(), "application/json"
        if body.get("stream"):
            names = [f"event: {event['type']}\n" if "type" in event else "" for event in events]
            lines = [
                f"{name}data: {json.dumps(event)}\n\n"
                for name, event in zip(names, events, strict=True)
            ]
            end = "data: [DONE]\n\n" if protocol is chat else ""
            content, kind = "".join([*lines, end]).encode(), "text/event-stream"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[str]:
    """Serve while inside; yield the base URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


# -------------------------------------------------------------------------------------- a training


def train_step(gateway: Gateway, step: int, ask: Callable[[str, str, str], str]) -> None:
    """Have all conversations of a step; those that have their reward are left out."""
    for number in range(GROUPS):
        group = f"{step}/{number}"
        for place in range(ROLLOUTS):
            question, key = Question(f"q{number}", f"Question {number}?"), f"{group}/{place}"
            with suppress(InputError, UnknownConversationError):  # it has its reward
                gateway.conversation(question, group, key)
                gateway.upstream(key)
                answer = ask(question.text, gateway.url, key)
                assert answer.startswith("Said: "), answer
                gateway.reward(key, reward_of(question.id, answer, place))


def main(directory: Path) -> None:
    """Continue the training of a folder, and leave ``result.json``."""
    settings = json.loads((directory / "settings.json").read_text())
    function, options = CLIENTS[settings["client"]]
    os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

    def ask(text: str, url: str, key: str) -> str:
        return function(text, url, key, stream=settings["stream"], **options)

    engine = ENGINE.build()
    with serving() as upstream:
        fields = GatewaySettings(
            upstream=upstream, directory=directory / WORK, rollouts=ROLLOUTS, groups=GROUPS
        )
        with Gateway(engine, fields, lambda: 0.0) as gateway:
            while engine.step < settings.get("steps", 3):
                train_step(gateway, engine.step, ask)
    result = {"state": engine.state_dict(), "events": list(engine.log)}
    (directory / "result.json").write_text(json.dumps(result))
