from __future__ import annotations

import http.client
import json
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import PATIENCE
from watched_runs import small

from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.report import live
from evoprompt.experiments.report.document import document
from evoprompt.experiments.report.live import LivePage, LiveServer
from evoprompt.experiments.report.page import render_page
from evoprompt.experiments.report.progress import progress
from evoprompt.experiments.report.source import read_source
from evoprompt.experiments.report.verdict import rankings
from evoprompt.experiments.summary import SeedSummary, to_json
from evoprompt.hosting.requests import RequestFiles
from evoprompt.log.evaluation import Evaluation, MainMetric
from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import (
    Evaluated,
    Evolved,
    Intervened,
    Notice,
    Proposed,
    Seeded,
    StepCompleted,
    Verified,
)
from evoprompt.types import ADMITTED, Candidate, VerificationResult


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return begun(tmp_path / "first")


def begun(root: Path) -> Path:
    log = EventLog(root / "events.jsonl")
    log.append(Seeded(0, "c0", {"instruction": "Search, then answer."}))
    log.append(StepCompleted(1, 8, 8, 0, 0.5, {"c0": 0.5}))
    log.append(
        Evaluated(1, "validation", "c0", 8, {"right": 0.5}, {}, MainMetric("right", "right"))
    )
    return root


@pytest.fixture
def server(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveServer]:
    monkeypatch.setattr(live, "_SHARE", 0)
    with LiveServer(LivePage(root), 0) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def get(server: LiveServer, path: str, host: str = "") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE)
    connection.request("GET", path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


def test_the_page_of_now_is_served(server: LiveServer, root: Path) -> None:
    status, page = get(server, "/")
    assert status == 200
    assert f'data-version="{server.live.version}"' in page
    assert "Search, then answer." in page
    EventLog(root / "events.jsonl").append(Seeded(1, "c1", {"instruction": "Look twice."}))
    EventLog(root / "events.jsonl").append(
        Evaluated(1, "validation", "c1", 9, {"right": 0.6}, {}, MainMetric("right", "right"))
    )
    assert "Look twice." in get(server, "/")[1]


def test_the_version_changes_with_the_files_and_with_nothing_else(
    server: LiveServer, root: Path
) -> None:
    first = get(server, "/version")
    assert first == (200, server.live.version)
    log = EventLog(root / "events.jsonl")
    log.append(Notice(2, "the model was down"))
    second = get(server, "/version")
    assert second != first
    log.rewind(2)  # killed, and resumed from an earlier checkpoint
    assert get(server, "/version") not in (first, second)
    assert get(server, "/version") == get(server, "/version")


def test_a_page_that_takes_long_is_not_made_again_at_once(root: Path) -> None:
    page = LivePage(root)
    first = page.page()
    EventLog(root / "events.jsonl").append(Notice(2, "the model was down"))
    assert page.page() is first


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [("/", "evil.example", 403), ("/", "evil.example:80", 403), ("/../config.yaml", "", 404)],
)
def test_nobody_else_is_served(server: LiveServer, path: str, host: str, status: int) -> None:
    assert get(server, path, host)[0] == status


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: "])
def test_a_client_that_never_finishes_asking_is_left(root: Path, said: bytes) -> None:
    with LiveServer(LivePage(root), 0, patience=0.05) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        with socket.create_connection(made.server_address[:2], PATIENCE) as client:  # type: ignore[arg-type]
            client.sendall(said)
            assert client.recv(1) == b""  # waits until the server closes it
        made.shutdown()
        thread.join()


def test_a_run_that_went_away_is_said_to_and_comes_back(server: LiveServer, root: Path) -> None:
    shutil.move(root, root.with_name("away"))
    assert get(server, "/")[0] == 503
    shutil.move(root.with_name("away"), root)
    assert get(server, "/")[0] == 200


def summary(value: float, seed: int = 0, best: str = "Search.") -> SeedSummary:
    return SeedSummary(
        seed=seed,
        main_metric=MainMetric("right", "right"),
        test=Evaluation(value=value),
        rollouts=8,
        rollouts_to_target=None,
        train_seconds=1.0,
        best={"instruction": best},
        curve=[],
    )


def finished(root: Path, static: float, coevolve: float) -> Path:
    """A run of two arms that has ended, with one evaluation on test questions each."""
    for arm, value, best in (("static", static, "Search."), ("coevolve", coevolve, "Look.")):
        trial = begun(root / "trials" / arm / "seed-0")
        (trial / "result.json").write_text(to_json(summary(value, best=best)))
    log = EventLog(trial / "events.jsonl")
    log.append(Proposed(1, "c1", {"instruction": "Look."}, ("c0",), "p"))
    log.append(Evolved(1, 1, ("c1",), ("c0", "c1"), 4))
    return root


def test_each_arm_is_compared_with_the_static_one(tmp_path: Path) -> None:
    source = read_source(finished(tmp_path / "run", 0.25, 0.5))
    first, second = rankings(source)
    assert (first.arm, first.value, first.baseline) == ("coevolve", 0.5, "static")
    assert (second.arm, second.value, second.baseline) == ("static", 0.25, "")
    assert "one seed only" in first.verdict
    page = " ".join(render_page(source).split())
    assert "<q>coevolve</q> has right 0.500, and <q>static</q>" in page
    assert "stayed as it was, 0.250 of the test." in page


def test_arms_that_were_tested_under_the_same_instruction_are_said_to(tmp_path: Path) -> None:
    root = finished(tmp_path / "run", 0.25, 0.5)
    result = root / "trials" / "coevolve" / "seed-0" / "result.json"
    result.write_text(to_json(summary(0.5, best="Search.")))
    page = " ".join(render_page(read_source(root)).split())
    assert "0.250 of the test, both under the same instruction." in page


def test_a_result_known_question_by_question_is_said_in_words(tmp_path: Path) -> None:
    root = tmp_path / "run"
    solved = {"static": [0.25, 0.5, 0.25], "coevolve": [1.0, 1.0, 0.75]}
    for arm, values in solved.items():
        for seed, value in enumerate(values):
            trial = begun(root / "trials" / arm / f"seed-{seed}")
            (trial / "result.json").write_text(to_json(summary(value, seed)))
            tested = [[f"question {at}", "easy", float(at < 4 * value)] for at in range(4)]
            (trial / "tested.json").write_text(json.dumps(tested))
    log = EventLog(trial / "events.jsonl")
    log.append(Proposed(1, "c1", {"instruction": "Look."}, ("c0",), "p"))
    log.append(Evolved(1, 1, ("c1",), ("c0", "c1"), 4))
    source = read_source(root)
    first, _ = rankings(source)
    assert first.flipped == (7, 0)
    assert first.gain is not None
    assert first.gain.high == pytest.approx(2 / 3), "nobody solves more than all"
    page = " ".join(render_page(source).split())
    assert "<q>coevolve</q> solves 91.7 %, and <q>static</q>" in page
    assert "33.3 % of 4 test questions, both under the same instruction." in page
    assert "7 answers came right, 0 went wrong." in page
    tests = document(source)["tests"]
    assert [len(row["values"]) for row in tests["rows"]] == [6] * 4  # type: ignore[index]


def test_three_arms_are_a_table_the_best_first(tmp_path: Path) -> None:
    root = finished(tmp_path / "run", 0.25, 0.5)
    shutil.copytree(root / "trials" / "coevolve", root / "trials" / "another")
    (root / "trials" / "another" / "seed-0" / "result.json").write_text(to_json(summary(0.75)))
    source = read_source(root)
    assert [one.arm for one in rankings(source)] == ["another", "coevolve", "static"]
    assert "The arms, the best first" in render_page(source)


def test_a_finished_baseline_is_told_while_the_other_arm_goes_on(tmp_path: Path) -> None:
    root = finished(tmp_path / "run", 0.25, 0.5)
    (root / "trials" / "coevolve" / "seed-0" / "result.json").unlink()
    page = " ".join(render_page(read_source(root)).split())
    assert "<q>static</q> has right 0.250 of the test" in page
    assert "Nothing is compared" not in page


def test_how_far_a_run_is(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path, small(seeds=2))
    run.write_config()
    begun(run.trial(TrialId("static", 0)).root)
    run.trial(TrialId("static", 0)).seconds.write_text("2.0")
    assert progress(read_source(tmp_path)) == [
        "0 of 4 trials finished; about 78 seconds left where one runs at a time.",
        "static, seed 0: step 1 of about 10, 8 of 80 rollouts, 4.0 rollouts a second, about 18 "
        "seconds left.",
    ]


def waiting(root: Path) -> Path:
    log = EventLog(root / "events.jsonl")
    log.append(Seeded(0, "c0", {"instruction": "Search."}))
    log.append(Proposed(1, "c1", {"instruction": "Look twice."}, ("c0",), "p"))
    log.append(Verified(1, "c1", 1, 0.75, 0.1, 8, True))
    RequestFiles(log.path).write_waiting(
        [
            VerificationResult(
                Candidate("c1", {"instruction": "Look twice."}), 0.75, 0.1, 8, ADMITTED
            )
        ]
    )
    return root


def test_who_waits_is_in_the_page_and_news(tmp_path: Path) -> None:
    root = waiting(tmp_path / "first")
    page = LivePage(root)
    before = page.version
    source = read_source(root)
    assert [one.candidate.id for one in source.trials[0].waiting] == ["c1"]
    assert "waits for approval" in json.dumps(document(source))
    folder = RequestFiles(root / "events.jsonl")
    request = folder.ask("refuse", "c1")
    assert page.version != before
    assert [one.action for one in read_source(root).trials[0].pending_requests] == ["refuse"]
    folder.record_completion(request, 1)
    folder.write_waiting([])
    EventLog(root / "events.jsonl").append(Intervened(1, request.id, "refuse", "c1", "you", True))
    source = read_source(root)
    assert not source.trials[0].waiting
    assert not source.trials[0].pending_requests
    shown = json.dumps(document(source))
    assert "dropped" in shown
    assert "refused by you" in shown


def test_a_damaged_request_is_named_and_the_rest_shown(tmp_path: Path) -> None:
    root = waiting(tmp_path / "first")
    (root / "pool" / "waiting.json").write_text("{")
    source = read_source(root)
    assert list(source.trials[0].history.admitted_candidates) == ["c0"]
    assert "waiting.json" in source.problems[0]
