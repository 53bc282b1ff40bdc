from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from evoprompt.experiments.best import best_trial
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.report import write_report
from evoprompt.experiments.report.document import document as build
from evoprompt.experiments.report.source import Source, files_of, read_source
from evoprompt.lm.budget import SPENDING_FILE, Charge, SpendTracker
from evoprompt.log.evaluation import REWARD, MainMetric
from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import (
    Evaluated,
    Event,
    Evolved,
    Excerpt,
    IncumbentChanged,
    Proposed,
    RolloutSamples,
    Seeded,
    StepCompleted,
)
from evoprompt.support import yamlfile
from evoprompt.types import Turn

pytestmark = pytest.mark.usefixtures("fake_task")

TEXTS = [  # whatever a writer may come up with
    "One\u2028two\x85three\u2029four\x0b\x0cfive\x1c\x1d\x1esix",
    "Red \x1b[31m and \x9b31m and \x1b]0;title\x07 and \x00 and \x7f.",
    "Half \ud800 a pair, \ufffe none, \U0010ffff none.",
    "\u202eright to left\u202c and e" + "\u0301" * 50,
    "<script>alert(1)</script> {{ 7 * 7 }} {% raw %} \\ %s %(x)s",
    "a" * 20_000,
]


def document(source: Source) -> Any:
    return json.loads(json.dumps(build(source)))


class Page(HTMLParser):
    """Collects what a browser would load, and the text it would show."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [
            value for name, value in attrs if name in ("src", "href") and value and value[0] != "#"
        ]
        if tag not in ("meta", "img", "input"):  # these are never closed
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def directory(finished_run: RunDirectory, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    root = shutil.copytree(finished_run.root, tmp_path_factory.mktemp("report") / "out")
    write_report(root)
    return RunDirectory(root, finished_run.config)


def written(root: Path, *events: Event) -> Path:
    log = EventLog(root / "events.jsonl")
    for event in events:
        log.append(event)
    return root


def test_the_page_needs_nothing_but_itself_and_tells_everything(directory: RunDirectory) -> None:
    text = (directory.root / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert page.loaded == []
    result = directory.trial(TrialId("coevolve", 1)).finished
    assert result is not None
    for told in (
        f"{result.test.value:.3f}",
        result.best_instruction,
        "population_size: 7",
        "first instruction, c0",  # whether the best is shown to be better
        "What sentences are worth",
    ):
        assert told in page.text
    assert write_report(directory.root).read_text(encoding="utf-8") == text, "the same again"


def test_the_page_knows_every_candidate_and_every_proposal(directory: RunDirectory) -> None:
    source = read_source(directory.root)
    before = {file: file.stat().st_mtime_ns for file in directory.root.rglob("*")}
    told = document(source)
    assert len(told["trials"]) == 4
    assert told["finished"]
    for shown, trial in zip(told["trials"], source.trials, strict=True):
        lives = [one for one in shown["texts"] if "lane" in one]
        assert len(lives) == len(trial.history.admitted_candidates)
        assert len(shown["texts"]) == len(trial.history.texts)
        assert [one["id"] for one in lives if one["wins"]][-1:] == [trial.history.winner]
        lanes = {(one["lane"], one["born"]) for one in lives}
        assert len(lanes) == len(lives), "no two overlap"
    assert {file: file.stat().st_mtime_ns for file in directory.root.rglob("*")} == before


def test_a_smoke_run_is_called_one(directory: RunDirectory, tmp_path: Path) -> None:
    root = shutil.copytree(directory.root, tmp_path / "run")
    title = read_source(root).title
    smoke = directory.config.model_copy(update={"smoke": True})
    (root / "config.yaml").write_text(yamlfile.dump(smoke.resolved()), encoding="utf-8")
    assert read_source(root).title == f"Smoke run of {title}"


def test_any_text_is_shown_as_it_is_and_does_nothing(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(1, len(TEXTS) + 1)]
    pairs = list(zip(names, TEXTS, strict=True))
    written(
        tmp_path,
        Seeded(0, "c0", {"instruction": "Write <answer>."}),
        *(Proposed(1, one, {"instruction": text}, ("c0",), text, text) for one, text in pairs),
        Evolved(1, 1, tuple(names), ("c0", *names), 4),
        StepCompleted(
            10**9,
            20,
            10,
            0,
            0.5,
            dict.fromkeys(["c0", *names], 0.5),
        ),
        Evaluated(10**9, "validation", "c1", 20, {"right": 0.5}, {}, MainMetric("right", "right")),
    )
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "<script>" not in page
    assert "&lt;answer&gt;" in page
    packed = re.search(r'<script type="text/plain" id="data"[^>]*>([^<]*)</script>', page)
    assert packed is not None
    shown = json.loads(gzip.decompress(base64.b64decode(packed.group(1))))["trials"][0]["texts"]
    assert [life["text"] for life in shown] == ["Write <answer>.", *TEXTS]


def test_an_unfinished_or_empty_run_is_drawn_too(directory: RunDirectory, tmp_path: Path) -> None:
    part = RunDirectory.new(tmp_path / "part", directory.config)
    part.write_config()
    assert "No events yet" in write_report(part.root).read_text(encoding="utf-8")
    lines = directory.trial(TrialId("coevolve", 0)).events.read_text(encoding="utf-8")
    events = part.trial(TrialId("coevolve", 0)).events
    events.parent.mkdir(parents=True)
    events.write_text("".join(lines.splitlines(keepends=True)[:60]), encoding="utf-8")
    assert "No trial is finished yet." in write_report(part.root).read_text(encoding="utf-8")


def test_the_best_instruction_is_that_of_the_command(
    directory: RunDirectory, tmp_path: Path
) -> None:
    part = RunDirectory.new(tmp_path / "part", directory.config)
    part.write_config()
    rewards = {("coevolve", 0): 0.5, ("static", 1): 0.5, ("static", 0): 0.5, ("coevolve", 1): 0.4}
    for (arm, seed), reward in rewards.items():
        written(
            part.trial(TrialId(arm, seed)).root,
            Seeded(0, "c0", {"instruction": f"As {arm}."}),
            Evaluated(1, "validation", "c0", 8, {"reward": reward}, main_metric=REWARD),
        )
    assert best_trial(part).trial == TrialId("static", 0)
    shown = write_report(part.root).read_text(encoding="utf-8")
    assert "Best instruction: static, seed 0, candidate c0" in shown


def test_what_cannot_be_read_is_left_out_and_named(directory: RunDirectory, tmp_path: Path) -> None:
    root = tmp_path / "damaged"
    shutil.copytree(directory.root, root)
    config = root / "config.yaml"
    config.write_text(config.read_text(encoding="utf-8").replace("budget:", "bugdet:"), "utf-8")
    events = root / "trials" / "coevolve" / "seed-0" / "events.jsonl"
    lines = events.read_text(encoding="utf-8").splitlines()
    events.write_text("\n".join([*lines[:40], "{oops", *lines[40:], ""]), encoding="utf-8")
    source = read_source(root)
    assert "bugdet" in source.problems[0]
    assert "events.jsonl:41 is no event" in source.problems[1]
    assert len(source.trials) == 4
    assert set(source.summary.arms) == {"static", "coevolve"}


def test_the_files_of_a_verl_job_are_read(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "evoprompt_events.jsonl")
    log.append(Seeded(0, "c0", {"instruction": "Search."}))
    log.append(StepCompleted(1, 8, 8, 0, 0.5, {"c0": 0.5}, stderrs={"c0": 0.1}))
    excerpt = Excerpt("c0", "2+2?", "4", 0.0, (Turn("5", "a tool's answer"),))
    log.append(RolloutSamples(1, (excerpt,)))
    log.append(Evaluated(1, "validation", "c0", 8, {"val-core/reward": 0.5}))
    journal = tmp_path / f"evoprompt_events-{SPENDING_FILE}"
    SpendTracker(journal).join({"m": Charge(1, 10, 10, 0.25)})
    source = read_source(tmp_path)
    assert source.spending["m"].usd == 0.25
    assert journal in files_of(tmp_path)
    (life,) = document(source)["trials"][0]["texts"]
    assert life["weights"] == [[1, 0.5, 0.1]]
    assert life["episodes"][0]["turns"] == [{"action": "5", "observation": "a tool's answer"}]


def test_what_an_attached_training_has_no_data_for_is_left_out(tmp_path: Path) -> None:
    written(
        tmp_path,
        Seeded(0, "c0", {"instruction": "Search."}),
        Proposed(1, "c1", {"instruction": "Look."}, ("c0",), "P"),
        Evolved(1, 1, ("c1",), ("c0", "c1"), 8),
        StepCompleted(2, 24, 8, 0, 0.5, {"c0": 0.25, "c1": 0.7}),
        IncumbentChanged(2, "c1"),
    )
    source = read_source(tmp_path)
    assert source.problems == []
    assert [entry.id for entry in source.trials[0].history.path()] == ["c0", "c1"]
    found = document(source)
    assert [panel["name"] for panel in found["panels"]] == ["reward", "instruction_length"]
    assert found["validation"] == []
    written(tmp_path, Evaluated(2, "validation", "c1", 24, {"reward": 0.5}, main_metric=REWARD))
    assert document(read_source(tmp_path))["validation"][0]["y"] == 0.5


def test_the_page_says_how_many_rollouts_of_training_had_no_reward(tmp_path: Path) -> None:
    root = written(
        tmp_path,
        Seeded(0, "c0", {"instruction": "Answer."}),
        StepCompleted(1, 40, 40, 0, 1.0, {"c0": 1.0}),
        StepCompleted(2, 80, 40, 8, 1.0, {"c0": 1.0}, failure="the judge did not answer"),
    )
    page = Page(write_report(root).read_text(encoding="utf-8"))
    reason = "failed: 8 of 80, first because the judge did not answer"
    assert f"training rollouts without a reward, {reason}" in page.text


def test_the_page_says_how_much_the_last_steps_left_to_learn(
    directory: RunDirectory, tmp_path: Path
) -> None:
    root = shutil.copytree(directory.root, tmp_path / "out")
    trial = RunDirectory(root, directory.config).trials()[0]
    log = root / "trials" / trial.arm / f"seed-{trial.seed}" / "events.jsonl"
    log.unlink()
    without = [5, *[1] * 10, *[2] * 10]  # the first of 21 steps is not among the last 20
    written(
        log.parent,
        Seeded(0, "c0", {"instruction": "Answer."}),
        *(
            StepCompleted(
                step, 8 * step, 8, 0, 0.25, {"c0": 0.5}, groups=5, groups_without_signal=count
            )
            for step, count in enumerate(without, 1)
        ),
    )
    page = Page(write_report(root).read_text(encoding="utf-8"))
    text = "groups without signal: 30 % of the last 20 steps; mean reward 0.25 of at most 1"
    assert f"{trial.arm}, seed {trial.seed}: {text}" in page.text
    attached = written(
        tmp_path / "attached",
        Seeded(0, "c0", {"instruction": "Answer."}),
        StepCompleted(1, 8, 8, 0, 0.25, {"c0": 0.5}, groups=5, groups_without_signal=5),
    )
    page = Page(write_report(attached).read_text(encoding="utf-8"))
    assert "groups without signal: 100 % of the last step\n" in page.text


def test_curves_are_means_and_ranges_over_the_seeds_that_are_not_just_begun(tmp_path: Path) -> None:
    for seed, steps in enumerate((10, 12, 2)):
        log = EventLog(tmp_path / "trials" / "arm" / f"seed-{seed}" / "events.jsonl")
        log.append(Seeded(0, "c0", {"instruction": "Search."}))
        for step in range(1, steps + 1):
            reward = float(seed) if step < 8 else 4.0
            log.append(StepCompleted(step, 8 * step, 8, 0, reward, {"c0": 0.5}, {"score": reward}))
    rewards, other = document(read_source(tmp_path))["panels"]
    assert other["name"] == "instruction_length", "the score draws the same as the reward"
    assert [row["x"] for row in rewards["rows"]] == list(range(1, 11)), "where both have values"
    first, last = rewards["rows"][0], rewards["rows"][-1]
    assert (first["low"], first["y"], first["high"]) == (0.0, 0.5, 1.0)
    assert (last["low"], last["high"]) == (2.4, 2.8), "running means over five steps"


def test_a_single_arm_is_compared_with_its_beginning(tmp_path: Path) -> None:
    def evaluated(rollouts: int, value: float, questions: float) -> Evaluated:
        metrics = {REWARD.name: value, "questions": questions}
        return Evaluated(1, "validation", "c0", rollouts, metrics, {}, REWARD)

    seeded = Seeded(0, "c0", {"instruction": "Answer."})
    root = written(tmp_path, seeded, evaluated(8, 0.25, 8), evaluated(90, 0.75, 20))
    text = " ".join(Page(write_report(root).read_text("utf-8")).text.split())
    assert "0.250 on 8 before, 0.750 on 20 after." in text
