"""A policy is trained, evaluated, exported and served by the same tokens, whatever its template."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from adding_task import HOST, save_model
from chat_templates import RESULT, action_of, look, tokenizer_of
from transformers import AutoTokenizer

import evoprompt
from evoprompt import Question, Task
from evoprompt.agents import Action, Episode, Limits, Sampling, play
from evoprompt.agents.tasks import Score, Trial
from evoprompt.agents.thoughts import marks_of
from evoprompt.experiments.answers import AGENT, methods_of
from evoprompt.experiments.export import export
from evoprompt.experiments.policies import ServedModel
from evoprompt.experiments.trial_parts import host_for
from evoprompt.optimizer.endpoint import Endpoint, TaskAgent
from evoprompt.support.storage import RECIPE_FILE
from evoprompt.testing.openai_server import Body, OpenAIServer

TEXT, ASKED = "Look first.", "Where is it?"
CALL = {"far": 3, "at": "left"}


class Looking(Task):
    """One question, and a tool for a model whose template shows tools."""

    seed_instructions = (TEXT,)
    limits = Limits(calls=1, turn_tokens=150, observation_tokens=180)
    host_defaults = MappingProxyType({"trl": HOST})

    def __init__(self, tools: bool, thought: str) -> None:
        self.tools = (look,) if tools else ()
        self.thought = thought
        self.contexts: list[list[int]] = []
        self._noise = 0

    def questions(self, split: str) -> Sequence[Question]:
        """The same one, in every split."""
        return [Question(f"{split}{n}", ASKED, ("There.",)) for n in range(2)]

    def score(self, episode: Episode, question: Question) -> Score:
        """Anything, so that there is something to learn."""
        self._noise += 1
        return Score(float(episode.answer == "There.") * (self._noise % 3))

    def sampler(self, model: Any, tokenizer: Any, temperature: float) -> Any:
        """What the policy says, whoever asks it; the contexts are noted."""
        tool = self.tools

        def sample(
            episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool
        ) -> list[Action]:
            self.contexts += [episode.context for episode in episodes]
            return [Action(said(episode)) for episode in episodes]

        def said(episode: Episode) -> list[int]:
            text = "There." if episode.turns or not tool else action_of(tokenizer, CALL)
            opened = marks_of(tokenizer).is_open_after(tokenizer.decode(episode.context))
            begun = self.thought.partition(marks_of(tokenizer).opening)[2].lstrip("\n")
            thought = begun if opened else self.thought
            ids: list[int] = tokenizer.encode(f"{thought}{text}", add_special_tokens=False)
            return ids

        return sample


FORGETS = "qwen3 does not"
"""Its template leaves out of the history the empty thought that it had ended the prompt with, so
that only a server that is sent the tokens goes on from them."""
THOUGHT = "<think>\nHm.\n</think>\n\n"
TEMPLATES: dict[str, tuple[str, dict[str, Any], bool, str]] = {
    "qwen2.5": ("qwen2_5", {}, True, ""),
    "qwen3 thinks": ("qwen3", {"enable_thinking": True}, True, THOUGHT),
    "qwen3 does not": ("qwen3", {"enable_thinking": False}, True, ""),
    "llama 3.1": ("llama3_1", {}, True, ""),
    "gemma 3": ("gemma3", {}, False, ""),
    "gemma 4": ("gemma4", {"enable_thinking": False}, True, ""),
    "qwen3.8": ("qwen3_8", {}, True, THOUGHT),
}


@pytest.mark.parametrize("case", TEMPLATES)
def test_the_tokens_are_the_same_wherever_the_policy_is_asked(case: str, tmp_path: Path) -> None:
    name, variables, tools, thought = TEMPLATES[case]
    model = save_model(tmp_path / "model")
    tokenizer_of(name).save_pretrained(model)
    task = Looking(tools, thought)
    arguments: dict[str, Any] = {**HOST["arguments"], "chat_template_kwargs": variables}  # type: ignore[dict-item]
    host = host_for(
        task, {"name": "trl", "model": model, "prompt_tokens": 1500, "arguments": arguments}
    )
    job: Any = host.prepare(task, Trial(0, tmp_path / "trial", 8, 8))
    engine = evoprompt.Engine([TEXT])
    attachment = evoprompt.attach(job.trainer, engine, render=job.render)
    job.train(engine, lambda evaluation: None)
    trained = distinct(task)
    assert len(trained) == 1 + tools
    assert job.evaluate(TEXT, "test").value >= 0
    assert distinct(task) == trained

    tokenizer: Any = AutoTokenizer.from_pretrained(model)
    question = [{"role": "user", "content": ASKED}]
    called = conversation(tokenizer, thought) if tools else []

    saved = tmp_path / "policy"
    job.save(saved)
    recipe = attachment.prompts.recipe(engine) if attachment.prompts else None
    assert recipe is not None
    (saved / RECIPE_FILE).write_text(recipe.model_dump_json())
    export(saved, tmp_path / "export")
    deployed: Any = AutoTokenizer.from_pretrained(tmp_path / "export")
    rendered = [question, [*question, *called]][: 1 + tools]
    again = len(trained) if case != FORGETS else 1
    assert [asked(deployed, messages) for messages in rendered][:again] == trained[:again]

    for folder in (saved, tmp_path / "export"):
        served = ServedModel(task, "m", "http://127.0.0.1:9/v1", str(folder))
        agent = methods_of(task, TEXT)[AGENT]
        first = task.questions("test")[0]
        steps = agent.begin(served.tokenizer, served.limits, first, TEXT)
        play([steps], task.sampler(None, served.tokenizer, 0.0), task.caller("test"))
        assert distinct(task) == trained

    messages: list[dict[str, Any]] = [{"content": "There."}]
    if tools:
        kept = {"reasoning_content": "Hm."} if thought else {}
        function = {"name": "look", "arguments": json.dumps(CALL)}
        call = {"id": "call00000", "type": "function", "function": function}
        messages.insert(0, {"content": None, "tool_calls": [call], **kept})
    with OpenAIServer([reply(message) for message in messages]) as server:
        endpoint = Endpoint("m", server.url, extra_body={"chat_template_kwargs": {**variables}})
        asyncio.run(TaskAgent(task, endpoint)(TEXT, task.questions("train")[0]))
        bodies = [request.body for request in server.requests]
    assert [
        asked(tokenizer, body["messages"], body.get("tools"), **body["chat_template_kwargs"])
        for body in bodies
    ][:again] == trained[:again]


def distinct(task: Looking) -> list[list[int]]:
    """The contexts since this was asked last, each once, the shortest first."""
    found = sorted({tuple(one) for one in task.contexts}, key=len)
    task.contexts.clear()
    return [list(one) for one in found]


def conversation(tokenizer: Any, thought: str) -> list[dict[str, Any]]:
    """The call and its result, as messages."""
    call = {"type": "function", "id": "call00000", "function": {"name": "look", "arguments": CALL}}
    kept = {"reasoning_content": "Hm."} if thought else {}
    shown = {"role": "tool", "name": "look", "tool_call_id": "call00000", "content": RESULT}
    return [{"role": "assistant", "content": "", "tool_calls": [call], **kept}, shown]


def asked(tokenizer: Any, messages: Any, tools: Any = None, **variables: Any) -> list[int]:
    """The tokens that a server makes of a conversation."""
    messages = [
        {**one, "tool_calls": [_parsed(call) for call in one["tool_calls"]]}
        if one.get("tool_calls")
        else one
        for one in messages
    ]
    text = tokenizer.apply_chat_template(
        messages, tools=tools, add_generation_prompt=True, tokenize=False, **variables
    )
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
    return ids


def _parsed(call: dict[str, Any]) -> dict[str, Any]:
    """A call as servers hand it to templates: its arguments as an object."""
    given = call["function"]["arguments"]
    parsed = json.loads(given) if isinstance(given, str) else given
    return {**call, "function": {**call["function"], "arguments": parsed}}


def reply(message: dict[str, Any]) -> Body:
    choice = {"message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return Body(json.dumps({"choices": [choice]}).encode())
