from __future__ import annotations

import os
import subprocess
import sys

import pytest
import typer
from command_line import stdout_of

from evoprompt.experiments.cli import COMMANDS, build_app
from evoprompt.plugins import Plugins
from evoprompt.support.errors import PluginError

pytestmark = pytest.mark.usefixtures("fake_task")


@pytest.mark.parametrize("command", [(), *[(name,) for name in COMMANDS]])
def test_help_reads_well_at_80_columns(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = stdout_of(*command, "--help")
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "…" not in text


def test_commands_of_plugins_stand_beside_our_own() -> None:
    text = stdout_of("--help")
    for name in (*COMMANDS, "fake"):
        assert f" {name} " in text
    assert stdout_of("fake", "hello") == "hello from the fake task\n"
    assert stdout_of("--version").startswith("evoprompt 0.")


def test_our_own_commands_load_no_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Plugins:
        raise AssertionError("plugins were loaded")

    monkeypatch.setattr("evoprompt.plugins.plugins", fail)
    build_app(["run", "--help"])
    build_app(["--version", "best"])


def test_a_plugin_may_not_take_the_name_of_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plugins, "commands", lambda self: [typer.Typer(name="run")])
    with pytest.raises(PluginError, match="a plugin brings the command 'run'"):
        build_app([])


def test_help_loads_neither_the_engine_s_hosts_nor_pictures() -> None:
    code = (
        "import sys\n"
        "from evoprompt.experiments.cli import main\n"
        "try: main(['run', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'transformers', 'trl', 'matplotlib', 'numpy', 'dspy'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, check=True
    )
    assert done.stderr == "[]\n"
