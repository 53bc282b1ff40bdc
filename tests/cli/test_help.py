"""The help lists the commands of plugins, and imports no component for that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from evoprompt.plugins import PluginSource

HELP = """
import sys
from evoprompt.experiments.cli import main
try:
    main(["--help"])
except SystemExit:
    pass
slow = {"numpy", "torch", "dspy", "litellm", "bm25s", "evoprompt.engine", "evoprompt.lm.client"}
print("IMPORTED:", sorted(slow & set(sys.modules)))
"""


def test_the_help_imports_nothing_slow() -> None:
    path = ":".join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", HELP],
        env={"PYTHONPATH": path, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "IMPORTED: []"
    assert "optimize" in done.stdout


@pytest.mark.parametrize(
    ("source", "is_expected"),
    [
        ("def evoprompt_commands(): ...", True),
        ("from other import *  # evoprompt_commands", True),
        ("def evoprompt_components(): ...", False),
        (None, True),
    ],
)
def test_a_plugin_is_imported_only_if_its_source_names_the_hook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str | None, is_expected: bool
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    if source is not None:
        (tmp_path / "helped_plugin.py").write_text(source)
    plugin = PluginSource("p", "d", "1", lambda: None, "helped_plugin")
    assert plugin.may_implement("evoprompt_commands") == is_expected
    assert PluginSource("p", "d", "1", lambda: None).may_implement("evoprompt_commands")
    assert "helped_plugin" not in sys.modules
