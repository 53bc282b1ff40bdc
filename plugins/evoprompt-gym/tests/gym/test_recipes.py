"""The recipes for clusters, carried out as they are, but for the machines: every run is dry."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evoprompt.support import yamlfile

HERE = Path(__file__).parents[2]
CLONE = HERE.parents[1]


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder as home and as clone, with commands that a cluster would have."""
    commands = {
        "evoprompt": f'exec {sys.executable} -m evoprompt "$@" --dry-run',
        "ray": "[ $1 != status ] || printf 'node_1\\nnode_2\\n'",
        "sudo": "[ $1 != tee ] || cat",
    }
    (tmp_path / "bin").mkdir()
    for name, does in commands.items():
        file = tmp_path / "bin" / name
        file.write_text(f"#!/bin/bash\n{does}\n", encoding="utf-8")
        file.chmod(0o755)
    for name in ("bash", "cat", "grep", "head", "id", "sleep"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    for name in ("venv", ".venv"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "activate").touch()
    (tmp_path / "sky_workdir").symlink_to(CLONE)
    (tmp_path / "plugins").symlink_to(CLONE / "plugins")
    return tmp_path


def carry_out(script: str, machine: Path, **environment: str) -> tuple[int, str]:
    """The exit code and all that was said."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=machine,
        env={
            "PATH": str(machine / "bin"),
            "HOME": str(machine),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "HF_HUB_OFFLINE": "1",
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def launcher_of(said: str) -> object:
    """The launcher's settings as the dry run prints them."""
    shown: Any = yamlfile.parse(said[said.index("task:\n") :].partition("\n\n")[0], "it")
    return shown["launcher"]


def test_the_first_machine_of_skypilot_has_the_trials_run_on_its_cluster(machine: Path) -> None:
    recipe: Any = yamlfile.parse((HERE / "skypilot.yaml").read_text(encoding="utf-8"), "the recipe")
    code, said = carry_out(
        recipe["run"],
        machine,
        SKYPILOT_NODE_RANK="0",
        SKYPILOT_NODE_IPS="127.0.0.1\n127.0.0.2",
        SKYPILOT_NUM_NODES=str(recipe["num_nodes"]),
    )
    assert launcher_of(said) == {"name": "ray", "address": "127.0.0.1:6385", "gpus": 1}
    assert "10 trials (2 arms x 5 seeds)" in said
    assert "missing launcher: there is no Ray cluster at address '127.0.0.1:6385'" in said
    assert code == 3


def test_slurms_job_submits_the_trials_and_goes_on_when_it_is_started_again(machine: Path) -> None:
    script = (HERE / "slurm.sh").read_text(encoding="utf-8")
    code, said = carry_out(script, machine)
    assert launcher_of(said) == {
        "name": "slurm",
        "gpus": 1,
        "cpus": 8,
        "memory_gb": 64,
        "minutes": 720,
        "setup": [f". {machine}/.venv/bin/activate"],
    }
    assert "missing launcher: the launcher is slurm, and this machine has no srun" in said
    assert code == 3
    (machine / "runs" / "first").mkdir(parents=True)
    (machine / "runs" / "first" / "config.yaml").touch()
    (machine / "bin" / "evoprompt").write_text('#!/bin/bash\necho "$@"\n', encoding="utf-8")
    assert "--output runs/first --resume --launcher slurm" in carry_out(script, machine)[1]
