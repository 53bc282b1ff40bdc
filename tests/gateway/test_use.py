"""The page runs as it stands, and the command serves until it is told to end."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from socket_upstream import LIMIT, local
from socket_upstream import serving as serving_socket
from upstream import KEY, MODEL, Reply, Upstream, serving

from evoprompt.experiments.proxy import gateway_of
from evoprompt.support import yamlfile
from evoprompt.support.errors import InputError

PAGE = Path(__file__).parents[2] / "docs/gateway.md"


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with serving() as found:
        yield found


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def settings() -> dict[str, Any]:
    found = yamlfile.parse(block("yaml"), "the page")
    assert isinstance(found, dict)
    return found


def test_the_first_lines_of_the_page_run(
    upstream: Upstream,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", upstream.url)
    upstream.reply = lambda body: Reply("4" if "number" in str(body) else "It is 4.")
    code = block("python").replace("http://127.0.0.1:8000/v1", upstream.url)
    exec(code.replace("my-model", MODEL), {})
    assert capsys.readouterr().out == "1 Answer with the number alone.\n"


def post(url: str, body: dict[str, Any], key: str = "none") -> Any:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


@pytest.mark.parametrize("token", ["", "the-token-of-trainers"])
def test_the_command_serves_and_goes_on_after_a_kill(
    upstream: Upstream, tmp_path: Path, token: str
) -> None:
    config = settings()
    config |= {"upstream": upstream.url, "directory": str(tmp_path / "g"), "port": 0}
    config |= {"key": "OPENAI_API_KEY", "rollouts": 2, "groups": 1, "engine": {"proposer": None}}
    file = tmp_path / "gateway.yaml"
    file.write_text(yamlfile.dump(config))
    command = [sys.executable, "-m", "evoprompt", "gateway", str(file)]
    keys: list[str] = []
    for ending in (signal.SIGKILL, signal.SIGTERM):
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENAI_API_KEY": KEY, "EVOPROMPT_GATEWAY_TOKEN": token},
        ) as process:
            assert process.stderr is not None
            lines = iter(process.stderr)
            shown = next(line for line in lines if "agents may call" in line)
            base = shown.split()[-1].removesuffix("/v1")
            printed = next(lines).split()[-1]
            assert printed == "EVOPROMPT_GATEWAY_TOKEN" if token else len(printed) == 32
            if not keys:
                opened = {"question": {"id": "q", "text": "2 + 2?"}, "group": "g"}
                keys = [
                    post(f"{base}/conversations", opened, token or printed)["key"] for _ in range(2)
                ]
            for key in keys:
                asked = {"model": MODEL, "messages": [{"role": "user", "content": "2 + 2?"}]}
                post(f"{base}/v1/chat/completions", asked, key)
            if ending == signal.SIGTERM:
                for key in keys:
                    rewarded = f"{base}/conversations/{key}/reward"
                    assert post(rewarded, {"reward": 1.0}, token or printed)["counted"]
            process.send_signal(ending)
            out, _ = process.communicate()
    assert (process.returncode, out) == (0, "Use the tools, then answer.\n")
    told = [json.loads(line) for line in (tmp_path / "g/events.jsonl").read_text().splitlines()]
    assert [one["reward"] for one in told if one["event"] == "step_completed"] == [1.0]


@contextmanager
def running(
    upstream: str, folder: Path, engine: dict[str, Any]
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the command; yield its process and the URL for trainers."""
    config = settings() | {"upstream": upstream, "directory": str(folder / "g"), "port": 0}
    config |= {"rollouts": 2, "groups": 1, "engine": engine, "key": "OPENAI_API_KEY"}
    file = folder / "gateway.yaml"
    file.write_text(yamlfile.dump(config))
    with subprocess.Popen(
        [sys.executable, "-m", "evoprompt", "gateway", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENAI_API_KEY": KEY, "EVOPROMPT_GATEWAY_TOKEN": "the-token"},
    ) as process:
        assert process.stderr is not None
        lines = iter(process.stderr)
        try:
            address = next(line for line in lines if "agents may call" in line)
            next(lines)  # about the token
            yield process, address.split()[-1].removesuffix("/v1")
        finally:
            process.kill()


def open_conversation(base: str, group: str = "g") -> str:
    """Return the key of a new conversation."""
    opened = {"question": {"id": "q", "text": "2 + 2?"}, "group": group}
    return str(post(f"{base}/conversations", opened, "the-token")["key"])


ASKED = {"model": MODEL, "messages": [{"role": "user", "content": "2 + 2?"}]}


def fall_silent(upstream: Any, connection: socket.socket, number: int) -> bool:
    """Answer no request."""
    del number
    upstream.wait_for_close(connection)
    return False


@pytest.mark.parametrize("is_second", [False, True])
def test_the_command_ends_while_the_upstream_is_silent(tmp_path: Path, is_second: bool) -> None:
    with (
        serving_socket(fall_silent) as silent,
        running(local(silent), tmp_path, {"proposer": None}) as (process, base),
    ):
        key = open_conversation(base)
        address = urlsplit(base)
        with closing(http.client.HTTPConnection(str(address.hostname), address.port)) as agent:
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
            agent.request("POST", "/v1/chat/completions", json.dumps(ASKED), headers)
            while not silent.requests:
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            if is_second:
                process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=LIMIT)
    if is_second:  # either may be read first
        assert process.returncode in (128 + signal.SIGINT, 128 + signal.SIGTERM)
    else:
        assert (process.returncode, out) == (0, "Use the tools, then answer.\n")


SLOW_WRITER = """
import time
from evoprompt import Proposer, hookimpl

class SlowWriter(Proposer):
    def propose(self, request):
        open({called!r}, "w").close()
        time.sleep(1e6)

@hookimpl
def evoprompt_components():
    return [SlowWriter]
"""


def test_the_command_ends_while_a_proposer_hangs(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called, distribution = tmp_path / "called", tmp_path / "slow-0.1.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: slow\nVersion: 0.1\n")
    (distribution / "entry_points.txt").write_text("[evoprompt]\nslow = slow_writer\n")
    (tmp_path / "slow_writer.py").write_text(SLOW_WRITER.format(called=str(called)))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    engine = {"proposer": "slow-writer", "evolve_every": 1, "accept": "all"}
    with running(upstream.url, tmp_path, engine) as (process, base):
        keys = [open_conversation(base) for _ in range(2)]
        for key in keys:
            post(f"{base}/v1/chat/completions", ASKED, key)
        for key in keys:
            post(f"{base}/conversations/{key}/reward", {"reward": 1.0}, "the-token")
        while not called.exists():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=LIMIT)
    assert (process.returncode, out) == (0, "Use the tools, then answer.\n")


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"upstream": "127.0.0.1:8000"}, "upstream"),
        ({"upstream": "file:///etc/passwd"}, "upstream"),
        ({"rollouts": 1}, "rollouts"),
        ({"groups": 0}, "groups"),
        ({"timeout": 0}, "timeout"),
        ({"instructions": []}, "instructions"),
        ({"rolouts": 4}, "rolouts"),
        ({"budget": {"usd": 1.0}}, "prices"),
    ],
)
def test_settings_that_cannot_be_used_are_named(
    tmp_path: Path, change: dict[str, Any], wrong: str
) -> None:
    config = {**settings(), "directory": str(tmp_path / "g"), **change}
    config["engine"] = {"proposer": None}
    file = tmp_path / "gateway.yaml"
    file.write_text(yamlfile.dump(config))
    with pytest.raises(InputError, match=wrong):
        gateway_of(file)


def test_the_remedy_for_the_default_proposer_is_a_setting_of_the_file(tmp_path: Path) -> None:
    config = {**settings(), "directory": str(tmp_path / "g"), "engine": {}}
    file = tmp_path / "gateway.yaml"
    file.write_text(yamlfile.dump(config))
    remedy = (
        "engine.proposer: {name: reflection, .*, or train without evolving, engine.proposer: null$"
    )
    with pytest.raises(InputError, match=remedy):
        gateway_of(file)
    file.write_text(yamlfile.dump({**config, "engine": {"proposer": None}}))
    gateway_of(file).close()
