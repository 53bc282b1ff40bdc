"""A credential in a configuration is refused; one of the environment reaches no file or message."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import evoprompt, stderr_of

pytestmark = [pytest.mark.usefixtures("fake_task"), pytest.mark.report]

CONFIG = """\
task: fake
host: {name: fake}
engine: {proposer: fake, population_size: 3, evolve_every: 4, verify_questions: 4}
budget: 480
evaluate_every: 160
arms: [static]
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("host.hub_token", "token-secret"),
        ("host.address", "http://me:pw-secret@host"),
        ("task.address", "http://host/?api_key=key-secret"),
        ("arms.static.host.arguments", "{hub_token: [token-secret]}"),
        ("smoke.host.hub_token", "token-secret"),
    ],
)
def test_one_in_the_settings_is_refused(
    config: Path, tmp_path: Path, name: str, value: str
) -> None:
    out = tmp_path / "out"
    told = stderr_of("run", str(config), "-o", str(out), "--set", f"{name}={value}")
    assert f"{name}" in told
    assert "holds a credential; required: none, as a run writes its settings to files" in told
    assert told.count("\n") == 1
    assert "-secret" not in told
    assert not out.exists()


def test_one_of_the_environment_is_in_no_file_of_what_fails(
    config: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FAKE_API_KEY", "key-secret")
    monkeypatch.setenv("FAKE_ADDRESS", "http://me:pw-secret@host/?q=key-secret")
    out = tmp_path / "out"
    assert evoprompt("run", str(config), "-o", str(out), "--set", "host.fail_at=3") == 1
    traceback = (out / "trials" / "static" / "seed-0" / "error.txt").read_text(encoding="utf-8")
    assert "RuntimeError: the accelerator is on fire http://***@host/?q=***" in traceback
    said, told = capsys.readouterr()
    files = [path for path in out.rglob("*") if path.is_file() and b"-secret" in path.read_bytes()]
    assert not files
    assert "-secret" not in said + told
