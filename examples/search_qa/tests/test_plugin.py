from __future__ import annotations

import subprocess
import sys

from evoprompt_search_qa.tiny.task import SearchQa

from evoprompt.plugins import build, plugins


def test_the_task_is_found_by_its_name() -> None:
    task = build("task", {"name": "search-qa", "train": 50})
    assert isinstance(task, SearchQa)
    assert task.settings.train == 50


def test_the_commands_are_found() -> None:
    assert "search-qa" in [app.info.name for app in plugins().commands()]


def test_listing_the_plugin_imports_no_heavy_library() -> None:
    code = (
        "import sys, evoprompt_search_qa.plugin as p; p.evoprompt_components(); "
        "p.evoprompt_commands(); "
        "print([m for m in ('torch', 'transformers', 'trl', 'datasets') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
