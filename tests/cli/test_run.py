from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import evoprompt, stderr_of, stdout_of, text_of

pytestmark = pytest.mark.usefixtures("fake_task")

CONFIG = """
task: fake
host: {name: fake}
engine:
  proposer: fake
  accept: not-worse
  population_size: 4
  evolve_every: 6
  prune_every: 5
  verify_questions: 10
budget: 800
evaluate_every: 160
target: 0.05
smoke: {budget: 80, evaluate_every: 40}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "tiny.yaml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


SLOW = """
import sys

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name in ("numpy", "torch", "transformers", "trl", "verl", "dspy"):
            print("imports", name, flush=True)

sys.meta_path.insert(0, Slow())
from evoprompt.experiments.cli import main
main(["run", "tiny.yaml", "--seeds", "2", "--smoke"])
"""


def test_it_says_what_it_begins_before_anything_slow_is_imported(here: Path) -> None:
    told = subprocess.run([sys.executable, "-c", SLOW], capture_output=True, text=True)
    first, *rest = told.stdout.splitlines()
    assert first == "run of tiny.yaml -> runs/tiny: static, coevolve; 2 seeds, 80 rollouts each"
    assert "imports numpy" in rest


class TestRun:
    @pytest.mark.report
    def test_runs_both_arms_and_ends_with_table_instruction_and_report(self, here: Path) -> None:
        text = stdout_of("run", "tiny.yaml")
        out = here / "runs" / "tiny"
        assert sorted(path.name for path in out.iterdir()) == [
            "about.json",
            "best_instruction.txt",
            "config.yaml",
            "report.html",
            "summary.json",
            "trials",
            "writer.lock",
        ]
        summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
        assert list(summary["arms"]) == ["static", "coevolve"]
        static, coevolve = (arm["seeds"][0] for arm in summary["arms"].values())
        assert coevolve["test"]["value"] > static["test"]["value"]
        assert coevolve["failure_reason"] == ""
        best = (out / "best_instruction.txt").read_text(encoding="utf-8")
        assert best == coevolve["best"]["instruction"] + "\n"
        table = text.partition("arm (seeds)")[2]
        assert "0.05" in table
        assert "static (1)" in table
        assert "coevolve (1)" in table
        assert "best instruction" in table
        assert table.split()[:4] == ["share", "solved", "0.05", "after"]
        assert "not shown to be better than the first instruction, c0" in " ".join(table.split())
        for line in (
            r"validation share solved 0\.\d{3} with c\d+; rollouts \d+ of 800",
            r"admitted c\d+ at [\d.]+±[\d.]+: \w+",
            r"evolved: \d admitted, \d+ rollouts of verification, \d active",
            r"pruned c\d+.*; \d active",
        ):
            assert re.search(line, text), line
        cells = table.partition("best instruction")[0]  # which is whole, to be copied
        assert all(len(line) <= 80 for line in cells.splitlines())

    def test_a_full_disk_ends_in_one_line_and_the_run_can_be_resumed(self, here: Path) -> None:
        # Nobody may make a folder there, not even root.
        error = stderr_of("run", "tiny.yaml", "--output", "/sys/evoprompt")
        assert "/sys/evoprompt cannot be written to" in error
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, before[1]))  # no file can be larger
        try:
            text = text_of("run", "tiny.yaml", code=1)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert "File too large" in text
        assert "Traceback" not in text
        assert evoprompt("run", "runs/tiny", "--resume") == 0

    @pytest.mark.report
    def test_a_run_that_evolves_nothing_ends_in_red_and_with_1(self, here: Path) -> None:
        given = ["tiny.yaml", "--arm", "coevolve", "--set", "engine.proposer=mute"]
        text = stdout_of("run", *given, code=1)
        assert "failed generation: the proposer proposed nothing" in text
        last = text.splitlines()[-1]
        kept = Path("runs/tiny/trials/coevolve/seed-0/policy")
        assert "coevolve/0 evolved nothing: all of 3 generations failed, the last because" in last
        assert last.endswith(f"its policy is saved in {kept}")
        assert (here / kept).is_dir()
        page = (here / "runs" / "tiny" / "report.html").read_text(encoding="utf-8")
        assert "step 18: the proposer proposed nothing" in page
        assert "coevolve/0 evolved nothing" in stdout_of("run", "runs/tiny", "--resume", code=1)

    def test_trials_are_chosen_settings_changed_and_the_next_run_has_a_folder_of_its_own(
        self, here: Path
    ) -> None:
        chosen = ["--arm", "static", "--seed", "3", "--seeds", "2", "--smoke"]
        assert evoprompt("run", "tiny.yaml", *chosen, "--set", "host.learning_rate=3e-4") == 0
        summary = json.loads((here / "runs" / "tiny" / "summary.json").read_text(encoding="utf-8"))
        assert list(summary["arms"]) == ["static"]
        assert [seed["seed"] for seed in summary["arms"]["static"]["seeds"]] == [3, 4]
        assert summary["arms"]["static"]["seeds"][0]["rollouts"] == 80
        resolved = (here / "runs" / "tiny" / "config.yaml").read_text(encoding="utf-8")
        assert "learning_rate: 0.0003" in resolved
        assert evoprompt("run", "tiny.yaml", "--smoke", "--arm", "static") == 0
        assert sorted(path.name for path in (here / "runs").iterdir()) == ["tiny", "tiny-2"]

    def test_ctrl_c_says_how_to_resume_and_that_works(self, here: Path) -> None:
        options = ["--arm", "coevolve", "--set", "host.interrupt_at=7"]
        text = stdout_of("run", "tiny.yaml", *options, code=130)
        assert "press Ctrl-C again to stop immediately" in text
        (told,) = [line for line in text.splitlines() if line.startswith("stopped; continue with")]
        assert told == "stopped; continue with: evoprompt run runs/tiny --resume"
        assert "done in" in stdout_of("run", "runs/tiny", "--resume")
        assert "was done before" in stdout_of("run", "tiny.yaml", *options, "--resume")

    def test_a_failed_trial_gives_exit_code_1_and_its_cause(self, here: Path) -> None:
        text = stdout_of("run", "tiny.yaml", "--set", "arms.coevolve.host.fail_at=2", code=1)
        assert "coevolve/0 failed: RuntimeError: the accelerator is on fire" in text
        assert "static/0 done in" in text
        assert "fix the cause and continue with: evoprompt run runs/tiny --resume" in text

    def test_without_what_draws_the_run_ends_well_and_names_the_extra(
        self, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "vl_convert", None)
        for name in [
            name for name in sys.modules if name.startswith("evoprompt.experiments.report.")
        ]:
            monkeypatch.delitem(sys.modules, name)
        assert 'pip install -e ".[report]"' in stdout_of("run", "tiny.yaml", "--smoke")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.yaml"], "none.yaml does not exist"),
        ([".", "--resume"], "config.yaml does not exist"),
        (["tiny.yaml", "--resume"], "holds no run"),
        (["tiny.yaml", "--arm", "statik"], "did you mean 'static'"),
        (["tiny.yaml", "--seeds", "0"], "at least 1 seed"),
        (["tiny.yaml", "--set", "host.learning_rat=1"], "did you mean 'learning_rate'"),
        (["tiny.yaml", "--set", "task.seeds=[Answer.]"], "lacks <answer>, </answer>"),
        (["tiny.yaml", "--set", "engine.proposer=fakee"], "did you mean 'fake'"),
        (["tiny.yaml", "--set", "arms.odd.instructions=[Hi]"], "lacks <answer>"),
        (["tiny.yaml", "--output", "tiny.yaml"], "is a file"),
        (["tiny.yaml", "--output", "."], "is not empty"),
    ],
)
def test_bad_input_is_one_line_with_exit_code_2_and_nothing_is_written(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert evoprompt("run", *arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    asked_of_components = any("host." in one or "[" in one or "engine." in one for one in arguments)
    assert captured.out.startswith("run of tiny.yaml ->" if asked_of_components else "")
    assert captured.out.count("\n") == asked_of_components
    assert sorted(path.name for path in here.iterdir()) == ["tiny.yaml"]
