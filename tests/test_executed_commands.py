"""Every command that a user sees is executed as printed, before strict servers on this machine.

One server stands for OpenAI, one for the servers at the addresses that pages print. They refuse a
path, a model or a key that the real ones would refuse. What they receive from each command is in
commands.txt, with a reason for each command that is not executed here. After a change that was
meant, write the table anew:

    python tests/test_executed_commands.py

Python calls are executed by test_readme.py, test_documented_calls.py, gateway/test_use.py and the
tests of the guides.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).with_name("contracts")))

from command_line import evoprompt
from printed import ROOT, commands_of, other_commands_of, pages
from strict_openai import StrictServer

from evoprompt.plugins import plugins
from evoprompt.testing.openai_server import Body, Received, Status, Step, chat_fields

pytestmark = [pytest.mark.endpoint, pytest.mark.lm, pytest.mark.report, pytest.mark.slow]

TABLE = Path(__file__).with_name("commands.txt")
FAKES = Path(__file__).with_name("fakes")
KEY = "sk-of-openai"
IDEA = "Work it out step by step."
OPENAI = "openai"
LOCAL = "127.0.0.1:8000"
LOCAL_PORTS = (8000, 8001)  # of the addresses that pages print
MODELS = {
    OPENAI: {"gpt-4.1-nano", "gpt-4.1-mini", "gpt-5-mini", "NAME"},
    LOCAL: {"qwen-coder", "policy"},
}
MISSING = 3  # exit code of a dry run that finds a requirement missing on this machine
SHOWN = 70  # characters of a message

TRAINS = re.compile(
    r"evoprompt run (examples|plugins|data)/(?!.*(--seeds-from|--dry-run))"
    r"|evoprompt run .*--launcher|evoprompt retriever (serve|build .*dense)"
)
"""Commands that take minutes, GPUs or a cluster, or listen: only their dry run is executed."""

REASONS = {
    r"evoprompt (watch|gateway)": "listens: tests/cli/test_watch.py, tests/gateway/test_use.py",
    r"evoprompt run .*(tiny-verl|verl-cpu)": "needs a process of its own: "
    "plugins/evoprompt-verl-cpu/tests/verl_cpu/test_cpu_host.py",
    r"evoprompt demo": "trains for minutes: the session wheels of noxfile.py",
    r"evoprompt (model|.*(smollm2|chain-sum))": "needs the network: "
    "examples/smollm2/tests/smollm2/test_commands.py",
    r"evoprompt search-qa data prepare .*--validation": "needs the network: "
    "examples/search_qa/tests/data/test_prepare.py",
    r"evoprompt (export|distill|eval RUN --arm)": "needs a trained model: "
    "tests/export/test_source.py, examples/search_qa/tests/open/test_distill.py",
    r"evoprompt simplify": "needs a trained model: tests/cli/test_simplify.py",
    r"evoprompt best \S+ --explain": "needs a training by sentences: tests/cli/test_best.py",
    r"evoprompt .*(letters|word-count)": "needs the task installed: tests/test_tasks_guide.py, "
    "tests/cli/test_new.py",
    r"evoprompt .*hello": "needs the plugin installed: tests/test_plugin_guide.py",
    r"evoprompt (new .*|plugins .*)NAME": "a placeholder: tests/cli/test_new.py, "
    "tests/cli/test_plugins.py",
    r"evoprompt run examples.*--seeds-from": "trains for minutes: tests/runs/test_transfer.py",
    r"evoprompt run examples/search_qa.*cat text": "needs the text of the command before it: "
    "tests/benchmarks/test_words_first.py",
    r"evoprompt eval examples/search_qa/qwen": "needs the questions: "
    "examples/search_qa/tests/test_guide.py",
    r"evoprompt optimize .*files/requests": "waits for a person: tests/lm/test_files.py",
    r"evoprompt replay examples/sql": "computes for 20 s: examples/sql/tests/sql/test_results.py",
    r"evoprompt replay RESULTS": "a placeholder: the pages of results name theirs",
    r"(python -m verl|evoprompt-verl|export VERL)": "needs Ray: "
    "tests/adapters/evoprompt_verl/test_readme_command.py, "
    "tests/integration/verl/test_readme_training.py",
    r"ray start": "needs several machines",
    r"docker": "needs docker",
    r"hf download|vllm|transformers serve": "needs the network, or a GPU",
    r"python -m benchmarks.words_first": "needs a policy, and minutes: "
    "tests/benchmarks/test_words_first.py",
    r"python (-m )?benchmarks": "needs a language model",
    r"python -m evoprompt_tiny": "trains for minutes: tests/test_tasks_guide.py",
    r"(\S+=\S+ )?pytest|python|pip|\.venv|site=|cp|sed": "sets up or tests: noxfile.py",
}
"""Why commands are not executed here, by their beginning; the first that matches counts."""

SUMS = {f"What is {n} plus {n}?": str(2 * n) for n in range(100, 140)}
CONFIG = """
task: fake
host: {name: fake}
engine:
  {proposer: fake, population_size: 4, evolve_every: 2, verify_questions: 4, fill_at_start: true}
arms: [static, coevolve]
budget: 200
evaluate_every: 100
smoke: {budget: 40}
"""


class RecordingServer(StrictServer):
    """Server that answers for its own models and, with OpenAI's name, for its own key.

    Args:
        name: OPENAI, or an address that a page prints.
        answers: right answer by the text of a question.
    """

    def __init__(self, name: str, answers: Mapping[str, str]) -> None:
        super().__init__(default=self._answer)
        self.name = name
        self.answers = answers
        self.ideas = count(1)

    def reply(self, received: Received) -> Step:
        """Answer a request that the real server would answer."""
        key = received.authorization.removeprefix("Bearer ")
        if (key == KEY) != (self.name == OPENAI):
            return self._refuse(401, f"{self.name} received the key {key!r}")
        if received.path == "/retrieve" and self.name == LOCAL:
            hits = [{"document": {"contents": '"Passage"\nNothing.'}, "score": 1.0}]
            return Body(json.dumps({"result": [hits for _ in received.body["queries"]]}).encode())
        if received.path != "/v1/chat/completions":
            return self._refuse(404, f"{self.name} has no {received.path}")
        if received.body["model"] not in MODELS[self.name]:
            return self._refuse(404, f"{self.name} has no model {received.body['model']}")
        return super().reply(received)

    def _refuse(self, code: int, reason: str) -> Step:
        self.refused.append(reason)
        return Status(code, message=reason)

    def _answer(self, body: Mapping[str, Any]) -> str:
        prompt = "\n".join(str(message["content"]) for message in body["messages"])
        if "[[ ## candidates ## ]]" in prompt:
            tags = "<search> and </search>, <answer> and </answer>"
            text = f"{IDEA} Write {tags}. Attempt {next(self.ideas)}."
            return chat_fields(analysis="It guesses.", candidates=[text])
        answer = next((right for text, right in self.answers.items() if text in prompt), "")
        return answer if IDEA in prompt else "I do not know."


def table() -> str:
    """Execute all commands in a folder of their own, and return what each sent."""
    sections, outcomes = [], dict[str, str]()
    with TemporaryDirectory() as folder, workspace(Path(folder)) as servers:
        for command, places in printed_commands().items():
            is_dry = TRAINS.match(command) and not reason_of(command)
            executed = f"{command} --dry-run" if is_dry else command
            if executed not in outcomes:
                outcomes[executed] = outcome(executed, servers)
            text = f"{'with --dry-run: ' if is_dry else ''}{outcomes[executed]}"
            sections.append(f"{command}\n    {', '.join(places)}\n    {text}\n")
    return "\n".join(sections)


def printed_commands() -> dict[str, list[str]]:
    """Return the commands, in the order of the pages, each with its pages."""
    places: dict[str, list[str]] = {}
    for page in sorted(pages(), key=lambda path: str(path.relative_to(ROOT))):
        if page.name in ("CHANGELOG.md", "CONTRIBUTING.md"):
            continue
        ours = [f"evoprompt {' '.join(command.split())}" for command in commands_of(page)]
        for command in dict.fromkeys([*ours, *other_commands_of(page)]):
            places.setdefault(command, []).append(str(page.relative_to(ROOT)))
    return places


def reason_of(command: str) -> str:
    """Return why ``command`` is not executed here; empty if it is."""
    return next((text for start, text in REASONS.items() if re.match(start, command)), "")


def outcome(command: str, servers: Sequence[RecordingServer]) -> str:
    """Return what the servers received from ``command``, or why it is not executed.

    Raises:
        AssertionError: it ended with an error, or a server refused a request.
    """
    if reason := reason_of(command):
        return f"not executed: {reason}"
    for server in servers:
        server.requests.clear()
    shutil.rmtree("DIR")
    shutil.copytree("stopped" if re.search("pool|--resume", command) else "RUN", "DIR")
    output = StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        code = evoprompt(*shlex.split(command)[1:])
    missing = [line for line in output.getvalue().splitlines() if line.startswith("missing ")]
    assert all(" -> " in line for line in missing), f"{command}: {missing}"
    expected = MISSING if missing and "--dry-run" in command else 0
    if command == "evoprompt doctor":
        expected = code  # it is about this machine
    assert code == expected, f"{command}\n{output.getvalue()}"
    refused = [reason for server in servers for reason in server.refused]
    assert refused == [], f"{command}\n{refused}"
    return "\n    ".join(line for server in servers for line in received(server)) or "nothing"


def received(server: RecordingServer) -> list[str]:
    """Return a line for each path and model of the requests, with a first message."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for request in server.requests:
        key = request.authorization.removeprefix("Bearer ") or "none"
        kind = (request.path, str(request.body.get("model", "")), key)
        groups.setdefault(kind, []).append(request.body)
    lines = []
    for (path, model, key), bodies in sorted(groups.items()):
        firsts = [str(body["messages"][0]["content"]) for body in bodies if "messages" in body]
        line = f"{server.name}{path} model {model or 'none'} key {key}"
        texts = [" ".join(text.split()) for text in firsts if len(text) > SHOWN // 2]
        if texts:  # requests come in any order, and the shortest one is always the same
            line += f": {min(texts, key=lambda text: (len(text), text))[:SHOWN]}"
        lines.append(line)
    return lines


@contextmanager
def workspace(folder: Path) -> Iterator[list[RecordingServer]]:
    """Enter a folder with all files that commands name, and begin the servers."""
    from evoprompt_calculator.task import Calculator

    task, answers = Calculator(), dict(SUMS)
    for split in ("train", "validation", "test"):
        answers |= {question.text: question.answers[0] for question in task.questions(split)}
    openai, local = servers = [RecordingServer(name, answers) for name in (OPENAI, LOCAL)]
    with openai, local, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("OPENAI_API_KEY", KEY)
        patch.setenv("OPENAI_BASE_URL", openai.url)
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "true")
        patch.setenv("PYTHONPATH", os.pathsep.join([str(FAKES), os.environ.get("PYTHONPATH", "")]))
        patch.syspath_prepend(FAKES)
        _lead_to(patch, int(local.url.split(":")[2].split("/")[0]))
        plugins.cache_clear()
        write_files(folder)
        yield servers
    plugins.cache_clear()


def _lead_to(patch: pytest.MonkeyPatch, port: int) -> None:
    """Lead connections to the printed addresses to a server, and refuse other machines."""
    connect = socket.socket.connect

    def connect_here(self: socket.socket, address: Any) -> None:
        if isinstance(address, tuple):
            host, wanted = address[:2]
            if not (host == "localhost" or host.startswith("127.") or host == "::1"):
                raise ConnectionRefusedError(f"{host}:{wanted} is not on this machine")
            address = (host, port if wanted in LOCAL_PORTS else wanted, *address[2:])
        connect(self, address)

    patch.setattr(socket.socket, "connect", connect_here)


def write_files(folder: Path) -> None:
    """Write what the commands name: tables, texts, and folders of runs."""
    rows = [{"question": question, "answer": answer} for question, answer in SUMS.items()]
    failures = [{**row, "answer": "7", "expected": row["answer"], "reward": 0} for row in rows[:8]]
    passages = [{"text": f"{question} It is {answer}."} for question, answer in SUMS.items()]
    for name, objects in (("qa", rows), ("yesterday", failures), ("docs", passages)):
        lines = "\n".join(map(json.dumps, objects))
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    table_lines = ["question,answer", *(",".join(pair) for pair in SUMS.items())]
    (folder / "qa.csv").write_text("\n".join(table_lines), encoding="utf-8")
    text = "Answer in <answer> and </answer>, after <search> and </search>."
    (folder / "prompt.txt").write_text("Answer the question.", encoding="utf-8")
    for name in ("instruction", "mine"):
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    for name in ("examples", "plugins"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "CONFIG").write_text(CONFIG, encoding="utf-8")
    with redirect_stdout(StringIO()):
        run = ("run", "CONFIG", "--arm", "coevolve", "--output")
        assert evoprompt(*run, "RUN") == 0
        assert evoprompt(*run, "stopped", "--set", "host.interrupt_at=3") == 130
    for name in ("other", "tiny", "trained", "qwen2.5-3b"):
        shutil.copytree("RUN", folder / "runs" / name)
    (folder / "DIR").mkdir()  # each command finds another run there
    shutil.copytree("stopped/trials/coevolve/seed-0", folder / "runs" / "gateway")


def test_what_each_command_sends_is_in_the_table() -> None:
    assert sections(table()) == sections(TABLE.read_text(encoding="utf-8")), (
        "python tests/test_executed_commands.py"
    )


def sections(text: str) -> list[str]:
    """Return the sections of a table, without those that need veRL where it does not install."""
    is_verl_here = sys.version_info < (3, 13)
    return [section for section in text.split("\n\n") if is_verl_here or "verl" not in section]


def test_the_table_has_the_commands_of_today() -> None:
    listed = [section.split("\n")[0] for section in TABLE.read_text("utf-8").split("\n\n")]
    assert listed == list(printed_commands()), "python tests/test_executed_commands.py"


def test_every_reason_is_of_a_command_and_names_what_is_there() -> None:
    lines = TABLE.read_text(encoding="utf-8")
    for reason in REASONS.values():
        assert f"not executed: {reason}\n" in lines
        for path in re.findall(r"\S+\.py", reason):
            assert (ROOT / path).is_file(), path


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
