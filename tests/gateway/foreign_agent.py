"""A foreign agent works under the gateway's instructions: run by the session foreign_agents."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from upstream import KEY, MODEL, Reply, serving


def reply(body: dict[str, Any]) -> Reply:
    """Guesses under one instruction, and calls the tool under the other, as it can be told to."""
    messages = body["messages"]
    texts = [str(message["content"]) for message in messages]
    number = re.findall(r"What is (\d+) times", " ".join(texts))[-1]
    calls = sum(
        bool(message.get("tool_calls")) or "multiply" in str(message) for message in messages[1:]
    )
    if "Use the tool for every product." in texts[0]:
        if not calls:
            return Reply("", [("multiply", json.dumps({"a": int(number), "b": 7}))])
        return said(body, str(7 * int(number)))
    assert "Guess the number." in texts[0]
    return said(body, "12")


def said(body: dict[str, Any], answer: str) -> Reply:
    """The answer, in a tool of the agent's where it has one for that."""
    if any(tool["function"]["name"] == "final_answer" for tool in body["tools"]):
        return Reply("", [("final_answer", json.dumps({"answer": answer}))])
    return Reply(answer)


@pytest.mark.parametrize("kind", ["smolagents", "openai"])
def test_an_agent_is_right_under_the_instruction_that_says_how(tmp_path: Path, kind: str) -> None:
    with serving() as upstream:
        upstream.reply = reply
        command = [sys.executable, "examples/foreign_agent.py", kind, upstream.url, MODEL]
        done = subprocess.run(
            [*command, str(tmp_path / "run")],
            capture_output=True,
            text=True,
            env={**os.environ, "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": upstream.url},
        )
    assert done.returncode == 0, done.stderr[-3000:]
    found = dict(line.split(" ", 1)[::-1] for line in done.stdout.splitlines()[-2:])
    assert float(found["Use the tool for every product."]) > float(found["Guess the number."])
    assert len(upstream.bodies) == 9 * 3  # one of two guesses at once, and the other asks twice
