"""Who may ask something on the live page, and what."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE

from evoprompt.eventlog import EventLog
from evoprompt.events import Intervened, Proposed, Seeded, Verified
from evoprompt.experiments.report.document import document
from evoprompt.experiments.report.live import LivePage, LiveServer
from evoprompt.experiments.report.source import read_source
from evoprompt.requests import RequestFiles, Waiting

TEXTS = {"c0": {"instruction": "Search."}, "c1": {"instruction": "Look twice."}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A training in which c1 waits for an answer."""
    return waiting(tmp_path / "first")


def waiting(root: Path) -> Path:
    log = EventLog(root / "events.jsonl")
    log.append(Seeded(0, "c0", TEXTS["c0"]))
    log.append(Proposed(1, "c1", TEXTS["c1"], ("c0",), "p"))
    log.append(Verified(1, "c1", 1, 0.75, 0.1, 8, True))
    RequestFiles(log.path).announce([Waiting(id="c1", components=TEXTS["c1"], mean=0.75)])
    return root


def asked(root: Path) -> list[tuple[str, str, dict[str, str]]]:
    found = RequestFiles(root / "events.jsonl").everything()
    return [(one.action, one.candidate, one.components) for one in found]


Serve = Callable[..., LiveServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    ends = []

    def start(*roots: Path, changes: bool = True) -> LiveServer:
        server = LiveServer(LivePage(roots, changes), 0)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        ends.append((server, thread))
        return server

    yield start
    for server, thread in ends:
        server.shutdown()
        thread.join()
        server.server_close()


def wish(**changed: Any) -> dict[str, Any]:
    usual = {"arm": "run", "seed": 0, "action": "approve", "candidate": "c1"}
    return usual | {"components": TEXTS["c1"]} | changed


def post(
    server: LiveServer,
    body: object,
    path: str = "/requests",
    host: str = "",
    method: str = "POST",
    **headers: str | None,
) -> tuple[int, str]:
    """Sends ``body`` as the page does, but for the headers that are given; None leaves one out."""
    own = host or f"127.0.0.1:{server.server_port}"
    changes = server.live.changes
    usual = {
        "Host": own,
        "Origin": f"http://{own}",
        "Content-Type": "application/json",
        "Authorization": f"Bearer {changes.token if changes else ''}",
    }
    given = usual | {name.replace("_", "-"): value for name, value in headers.items()}
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE)
    sent = {name: value for name, value in given.items() if value is not None}
    connection.request(method, path, text, sent)
    answer = connection.getresponse()
    assert not any(name.startswith("Access-Control") for name in answer.headers)
    found = answer.status, answer.read().decode()
    connection.close()
    return found


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": None}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Bearer \xe4"}, 401),
        ({"Origin": None}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"host": "evil.example"}, 403),
        ({"Content_Type": "text/plain"}, 415),  # what a form can send without being asked first
        ({"Content_Length": "1000001"}, 413),
        ({"path": "/"}, 404),
        ({"method": "OPTIONS"}, 501),  # no other site is told that it may send a header
    ],
)
def test_whoever_is_not_the_page_with_its_token_is_refused(
    serve: Serve, root: Path, headers: dict[str, Any], status: int
) -> None:
    server = serve(root)
    assert post(server, wish(), **headers)[0] == status
    assert asked(root) == []
    assert post(server, wish())[0] == 200, "with them it is taken"


def test_a_page_without_leave_only_shows(serve: Serve, root: Path) -> None:
    server = serve(root, changes=False)
    assert post(server, wish(), Authorization="Bearer ")[0] == 403
    assert asked(root) == []


def test_the_token_is_in_no_answer_and_no_file(
    serve: Serve, root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server = serve(root)
    changes = server.live.changes
    assert changes is not None
    assert len(changes.token) >= 43, "256 bits"
    said = [post(server, wish())[1], post(server, wish())[1], post(server, wish(), path="/")[1]]
    said.append(server.live.page().decode())
    said += [file.read_text() for file in root.rglob("*") if file.is_file()]
    said += list(capfd.readouterr())
    assert len(said) >= 7
    assert not [text for text in said if changes.token in text]
    assert serve(root).live.changes.token != changes.token  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"candidate": "c7"}, "c7 does not wait for approval; waiting: c1"),
        ({"components": TEXTS["c0"]}, "c1 is another text than the one that was shown"),
        ({"arm": "static"}, "no trial 'static' with seed 0; required: one of run, seed 0"),
        ({"action": "retire", "candidate": "c7"}, "no candidate 'c7'"),
        ({"action": "retire"}, "c1 is not alive"),
        ({"action": "stop"}, "action is 'stop'"),
        ({"action": "add", "candidate": "", "components": {"instruction": " "}}, "is empty"),
        ({"override": True}, "unknown setting 'override'"),
        (None, "this is not asked as the page does"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(
    serve: Serve, root: Path, changed: dict[str, Any] | None, said: str
) -> None:
    status, answer = post(serve(root), b"{" if changed is None else wish(**changed))
    assert (status, said in answer) == (409, True), answer
    assert asked(root) == []


def test_an_answer_is_given_once(serve: Serve, root: Path) -> None:
    server = serve(root)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: post(server, wish())[0], range(8)))
    assert sorted(found) == [200] + 7 * [409]
    assert "c1 has its answer: approve" in post(server, wish(action="refuse"))[1]
    folder = RequestFiles(root / "events.jsonl")
    folder.take(folder.everything()[0], 1)
    folder.announce([])
    assert "c1 does not wait for approval" in post(server, wish())[1], "already decided"
    assert len(asked(root)) == 1


def test_what_is_asked_is_written_for_the_engine(serve: Serve, root: Path) -> None:
    server = serve(root)
    mine = {"instruction": "Read on."}
    wanted = [("approve", "c1", TEXTS["c1"]), ("pin", "c0", TEXTS["c0"]), ("add", "", mine)]
    for action, candidate, components in wanted:
        sent = wish(action=action, candidate=candidate, components=components)
        assert post(server, sent)[0] == 200
    assert asked(root) == wanted


def test_nothing_is_asked_of_a_training_that_has_finished(serve: Serve, root: Path) -> None:
    (root / "result.json").write_text("{}")
    assert "has finished" in post(serve(root), wish())[1]
    assert asked(root) == []


def test_of_several_runs_the_right_one_is_asked(serve: Serve, root: Path, tmp_path: Path) -> None:
    other = waiting(tmp_path / "second")
    server = serve(root, other)
    assert post(server, wish())[0] == 409
    assert post(server, wish(arm="second: run"))[0] == 200
    assert (asked(root), len(asked(other))) == ([], 1)


def test_who_waits_is_in_the_page_and_news(root: Path) -> None:
    page = LivePage([root])
    before = page.version
    source = read_source(root)
    assert [one.id for one in source.trials[0].waiting] == ["c1"]
    assert "waits for approval" in json.dumps(document(source))
    folder = RequestFiles(root / "events.jsonl")
    request = folder.ask("refuse", "c1")
    assert page.version != before
    assert [one.action for one in read_source(root).trials[0].asked] == ["refuse"]
    folder.take(request, 1)
    folder.announce([])
    EventLog(root / "events.jsonl").append(Intervened(1, request.id, "refuse", "c1", "you", True))
    source = read_source(root)
    assert (source.trials[0].waiting, source.trials[0].asked) == ([], [])
    shown = json.dumps(document(source))
    assert "turned away" in shown
    assert "refused by you" in shown


def test_a_damaged_request_is_named_and_the_rest_shown(root: Path) -> None:
    (root / "pool" / "waiting.json").write_text("{")
    source = read_source(root)
    assert list(source.trials[0].history.lives) == ["c0"]
    assert "waiting.json" in source.problems[0]
