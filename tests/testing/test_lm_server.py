from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from evoprompt.testing import ScriptedLm


def complete(url: str, *contents: object) -> str:
    messages = [{"role": "user", "content": content} for content in contents]
    body = json.dumps({"model": "m", "messages": messages}).encode()
    with urllib.request.urlopen(f"{url}/chat/completions", data=body, timeout=5) as response:
        said = json.load(response)["choices"][0]["message"]["content"]
    assert isinstance(said, str)
    return said


def test_it_answers_by_its_script_and_remembers_what_it_was_asked() -> None:
    with ScriptedLm(str.upper) as server:
        assert complete(server.url, "one", [{"type": "text", "text": "two"}]) == "ONE\n\nTWO"
        assert server.prompts == ["one\n\ntwo"]


def test_it_is_gone_when_it_is_left() -> None:
    with ScriptedLm(str.upper) as server:
        url = server.url
    with pytest.raises(urllib.error.URLError):
        complete(url, "one")
