"""The README's veRL command runs as printed, until veRL would start Ray."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from provider import openai

pytestmark = pytest.mark.lm

ROOT = Path(__file__).parents[3]
(COMMAND,) = re.findall(
    r"```console\n(python -m verl\.trainer\.main_ppo .*?)```",
    (ROOT / "README.md").read_text("utf-8"),
    flags=re.DOTALL,
)
RAY_STARTS = "veRL has checked its configuration and starts Ray"
WITHOUT_RAY = f"""
import ray

def init(**settings):
    raise SystemExit({RAY_STARTS!r})

ray.init = init
"""
"""In place of Ray, which veRL starts once its own checks have passed."""


@pytest.fixture
def folder(tmp_path: Path, small_model: Path, questions: Path) -> Path:
    """A directory with the files and the model that the command names."""
    values = dict(word.split("=", 1) for word in shlex.split(COMMAND) if "=" in word)
    for key in ("data.train_files", "data.val_files"):
        shutil.copy(questions, tmp_path / values[key])
    shutil.copytree(small_model, tmp_path / values["actor_rollout_ref.model.path"])
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_RAY)
    return tmp_path


def test_the_command_of_the_readme_passes_all_checks(folder: Path) -> None:
    with openai("ready") as server:
        path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
        programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        ended = subprocess.run(
            ["bash", "-c", COMMAND],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, "PATH": programs, "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
        )
    assert ended.stderr.rstrip().endswith(RAY_STARTS), ended.stderr
    assert [request.body["model"] for request in server.requests] == ["gpt-5-mini"]
