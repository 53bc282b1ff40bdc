"""Credentials in settings reach the task and the trainer, and no file, terminal or message."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import evoprompt

from evoprompt import yamlfile

pytestmark = [pytest.mark.usefixtures("fake_task"), pytest.mark.report]

CONFIG = """\
task: fake
host: {name: fake, hub_token: token-secret, address: "http://me:pw-secret@host/?api_key=key-secret"}
engine: {proposer: fake, population_size: 3, evolve_every: 4, verify_questions: 4}
budget: 480
evaluate_every: 160
arms: {static: null, coevolve: {host: {interrupt_at: 8}}}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


def leaks(capsys: pytest.CaptureFixture[str], out: Path) -> list[str]:
    """Where a secret is found, of what was said and written."""
    said, told = capsys.readouterr()
    assert said + told
    found = [path for path in out.rglob("*") if path.is_file() and b"-secret" in path.read_bytes()]
    return [*map(str, found), *(["terminal"] if "-secret" in said + told else [])]


def test_a_run_that_is_stopped_and_resumed(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert evoprompt("run", str(config), "-o", str(out)) == 130
    assert leaks(capsys, out) == []
    written = yamlfile.read(out / "config.yaml")
    assert written["withheld"] == [
        f"{place}.{name}"
        for place in ("host", "arms.static.host", "arms.coevolve.host")
        for name in ("hub_token", "address")
    ]
    assert evoprompt("run", str(out), "--resume") == 2
    told = capsys.readouterr().err
    assert told.startswith("error: the credentials in host.hub_token, host.address, ")
    assert told.count("\n") == 1
    first = (out / "config.yaml").read_bytes()
    assert evoprompt("run", str(config), "-o", str(out), "--resume") == 0
    assert leaks(capsys, out) == []
    assert (out / "config.yaml").read_bytes() == first
    assert evoprompt("best", str(out)) == 0
    assert evoprompt("report", str(out)) == 0


def test_another_setting_is_refused_and_another_credential_is_not(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert evoprompt("run", str(config), "-o", str(out), "--arm", "coevolve") == 130
    again = ["run", str(config), "-o", str(out), "--resume"]
    capsys.readouterr()
    assert evoprompt(*again, "--arm", "static") == 2
    lacking = "the credentials in arms.coevolve.host.hub_token, arms.coevolve.host.address are not"
    assert lacking in capsys.readouterr().err
    assert evoprompt(*again, "--set", "host.address=other-secret") == 2
    told = capsys.readouterr().err
    assert "host.address is 'other-secret' but the run was started with 'http://***@host" in told
    assert "pw-secret" not in told
    # A key may have been renewed; an arm may be added.
    assert evoprompt(*again, "--set", "host.hub_token=new-secret") == 0
    assert leaks(capsys, out) == []


def test_what_fails_is_told_and_written_without_them(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert evoprompt("run", str(config), "-o", str(out), "--set", "host.fail_at=3") == 1
    assert leaks(capsys, out) == []
    traceback = (out / "trials" / "static" / "seed-0" / "error.txt").read_text(encoding="utf-8")
    assert "RuntimeError: the accelerator is on fire http://***@host/?api_key=***" in traceback


@pytest.mark.parametrize("change", ["host.hub_token=[token-secret]", "host.learning_rate=fast"])
def test_what_is_refused_is_refused_without_them(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    assert evoprompt("run", str(config), "-o", str(tmp_path / "out"), "--set", change) == 2
    assert leaks(capsys, tmp_path / "out") == []


def test_a_dry_run_shows_none(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evoprompt("run", str(config), "--dry-run") == 0
    said = capsys.readouterr().out
    assert "hub_token: '***'" in said
    assert "-secret" not in said
