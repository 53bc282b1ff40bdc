"""``evoprompt new``: a folder that installs and passes its own tests; that of a task trains."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from command_line import evoprompt, stderr_of, stdout_of
from fresh_site import fresh_site

from evoprompt.experiments.config import load
from evoprompt.experiments.hosts.settings import HostSettings

WITHOUT_TORCH = (
    "import sys\nsys.modules.update(dict.fromkeys(['torch', 'transformers', 'trl', 'datasets']))\n"
)
FILES = ["README.md", "pyproject.toml", "test_word_count.py", "word-count.yaml", "word_count.py"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_writes_five_files_and_says_how_to_begin(here: Path) -> None:
    *_, last = stdout_of("new", "task", "word-count").splitlines()
    folder = here / "word-count"
    assert sorted(path.name for path in folder.iterdir()) == FILES
    assert last == (
        "begin with: pip install -e word-count && "
        "evoprompt run word-count/word-count.yaml --dry-run"
    )
    for path in folder.iterdir():
        text = path.read_text(encoding="utf-8")
        assert "$" not in text
        assert path.suffix == ".md" or all(len(line) <= 100 for line in text.splitlines())
    smoke = load(folder / "word-count.yaml", smoke=True)
    assert (smoke.budget, smoke.host["max_calls"], smoke.host["turn_tokens"]) == (40, 1, 32)
    config = load(folder / "word-count.yaml")
    assert (config.task, config.host["name"]) == ({"name": "word-count"}, "trl")
    shared = HostSettings.model_fields["rollouts_per_question"].default
    assert config.engine_of("coevolve").candidates_for(shared) == 5
    error = stderr_of("new", "task", "word-count")
    assert "word-count is not empty; required: a new or empty folder" in error
    assert "class WordCountTask(Task):" in (folder / "word_count.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Word", "required: lower-case words and digits joined by hyphens"),
        ("../word", "required: lower-case words"),
        ("class", "no module can have"),
        ("json", "there is a module json already"),
        ("fake", "a task of that name is installed"),
    ],
)
@pytest.mark.usefixtures("fake_task")
def test_a_name_that_cannot_be_used_is_refused_in_one_line(
    name: str, message: str, here: Path
) -> None:
    error = stderr_of("new", "task", name)
    assert message in error
    assert error.startswith("error: the name is ")
    assert error.count("\n") == 1
    assert list(here.iterdir()) == []


@pytest.mark.slow
def test_its_own_tests_pass_without_torch(here: Path) -> None:
    assert evoprompt("new", "task", "word-count") == 0
    (here / "sitecustomize.py").write_text(WITHOUT_TORCH, encoding="utf-8")
    path = [str(here), str(here / "word-count"), os.environ.get("PYTHONPATH", "")]
    run = fresh_site(here, PYTHONPATH=os.pathsep.join(path))
    said = run(f"{sys.executable} -m pytest -q -p no:cacheprovider word-count")
    assert re.search(r"\d+ passed", said)


@pytest.mark.slow
@pytest.mark.nightly
def test_the_commands_of_its_readme_run_as_they_stand(here: Path) -> None:
    """What trains a model of the hub is run with the policy of the smoke run."""
    assert evoprompt("new", "task", "word-count") == 0
    folder = here / "word-count"
    readme = (folder / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```$", readme, re.M | re.S)
    begin, smoke, train = [
        [line.partition("  #")[0].strip() for line in block.splitlines()] for block in blocks
    ]
    path = [str(folder), str(folder / "site"), os.environ.get("PYTHONPATH", "")]  # no .pth is read
    run = fresh_site(folder, HF_HUB_OFFLINE="1", PYTHONPATH=os.pathsep.join(path))
    install, tests, dry_run = begin
    assert "Successfully installed word-count-0.1.0" in run(install)
    assert re.search(r"\d+ passed", run(tests))
    assert "missing model: Qwen/" in run(dry_run, code=3)
    for command in smoke:
        run(command)
    summary = json.loads((folder / "runs/smoke/summary.json").read_text(encoding="utf-8"))
    assert list(summary["arms"]) == ["static", "coevolve"]
    assert (folder / "runs/smoke/report.html").is_file()
    changes = [
        "host.model=runs/tiny-policy",
        "host.turn_tokens=8",
        "budget=80",
        "evaluate_every=80",
    ]
    train_command, evaluate = train
    run(train_command, *[word for change in changes for word in ("--set", change)])
    assert "greedily, on 100 questions of test" in run(evaluate)


@pytest.mark.parametrize("role", ["proposer", "selector", "attributor", "verifier"])
def test_a_component_of_each_role_passes_the_suite_of_its_role(role: str, here: Path) -> None:
    assert stdout_of("new", role, "first-idea").splitlines()[-1] == (
        "begin with: pip install -e first-idea && evoprompt plugins --check first-idea"
    )
    folder = here / "first-idea"
    made = sorted(path.name for path in folder.iterdir())
    assert made == ["first_idea.py", "pyproject.toml", "test_first_idea.py"]
    assert all("$" not in path.read_text(encoding="utf-8") for path in folder.iterdir())
    run = fresh_site(here, PYTHONPATH=str(folder))
    said = run(f"{sys.executable} -m pytest -q -p no:cacheprovider first-idea")
    assert re.search(r"\d+ passed", said)
    assert "failed" not in said
    listed = (
        "from evoprompt.plugins import Plugins, PluginSource; import first_idea; "
        "source = PluginSource('first-idea', 'first-idea', '0.1.0', lambda: first_idea); "
        "print([(one.component.role, one.name) for one in Plugins([source]).components()])"
    )
    assert run(sys.executable, "-c", listed) == f"[('{role}', 'first-idea')]\n"
