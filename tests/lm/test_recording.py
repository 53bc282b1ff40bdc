from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from evoprompt.lm import ReplayError
from evoprompt.lm.recording import RecordedError, Recorder, Replay, Response
from evoprompt.support.errors import InputError, StateError


def request(text: str) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "text": text}]}


def response(text: str) -> Response:
    return Response(model="m", text=text, finish_reason="stop", input_tokens=1, output_tokens=1)


def said(replay: Replay, text: str) -> str:
    found = replay.outcome(request(text))
    assert isinstance(found, Response)
    return found.text


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "run" / "exchanges.jsonl"
    recorder = Recorder(path)
    for asked, told in (("a", "first a"), ("b", "b"), ("a", "second a")):
        recorder.add(request(asked), response(told))
    return path


def test_exchanges_are_replayed_once_and_in_any_order(recording: Path) -> None:
    replay = Replay(recording)
    assert [said(replay, text) for text in ("b", "a", "a")] == ["b", "first a", "second a"]
    with pytest.raises(ReplayError, match="all 3 recorded exchanges were used"):
        replay.outcome(request("b"))


def test_nothing_is_lost_where_several_record_into_one_file(tmp_path: Path) -> None:
    path = tmp_path / "exchanges.jsonl"
    recorders = [Recorder(path), Recorder(path)]
    texts = [f"{number} {'x' * 5_000}" for number in range(100)]

    def add(number: int) -> None:
        recorders[number % 2].add(request(texts[number]), response(str(number)))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # so that threads meet
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(add, range(len(texts))))
    finally:
        sys.setswitchinterval(interval)
    replay = Replay(path)
    assert [said(replay, text) for text in texts] == [str(one) for one in range(len(texts))]


def test_a_resumed_replay_continues(recording: Path) -> None:
    before, after = Replay(recording), Replay(recording)
    said(before, "a")
    after.load_state_dict(json.loads(json.dumps(before.state_dict())))
    assert said(after, "a") == "second a"
    with pytest.raises(StateError):
        after.load_state_dict({})


@pytest.mark.parametrize("rest", ['{"digest": "12", "request": {"mod', '{"digest": "12", "a": {}}'])
def test_an_exchange_that_was_cut_is_left_out_and_the_next_ones_are_kept(
    recording: Path, rest: str
) -> None:
    recorder = Recorder(recording)
    recorder.add(request("c"), response("c"))
    with recording.open("a") as file:
        file.write(rest.removesuffix("}"))  # the process was killed, or the disk was full
    recorder.add(request("d"), response("d"))
    replay = Replay(recording)
    assert [said(replay, text) for text in "abacd"] == ["first a", "b", "second a", "c", "d"]


def test_any_text_can_be_recorded(tmp_path: Path) -> None:
    text = "one\u2028two\x85three\n{four}"
    (tmp_path / "lm.jsonl").touch()
    Recorder(tmp_path / "lm.jsonl").add(request(text), response(text))
    assert said(Replay(tmp_path / "lm.jsonl"), text) == text


def test_no_credential_is_kept_and_the_recording_still_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "abc.def-123456")
    path = tmp_path / "exchanges.jsonl"
    asked = request("call http://me:pw1234@host")
    recorder = Recorder(path)
    recorder.add(asked, response("I used Authorization: Bearer abc.def-123456"))
    recorder.add(
        asked, RecordedError(kind="LMError", status=401, message="wrong key abc.def-123456")
    )
    text = path.read_text(encoding="utf-8")
    assert not [secret for secret in ("pw1234", "123456") if secret in text]
    replay = Replay(path)
    assert replay.outcome(asked) == response("I used Authorization: Bearer ***")
    assert replay.outcome(asked) == RecordedError(
        kind="LMError", status=401, message="wrong key ***"
    )


def test_files_that_cannot_serve_are_refused_before_anything_is_asked(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("hello\n")
    for name in ("notes", "missing.jsonl"):
        with pytest.raises(InputError, match="cannot be replayed"):
            Replay(tmp_path / name)
    for path in (tmp_path, tmp_path / "notes" / "below", tmp_path / ("x" * 5_000)):
        with pytest.raises(InputError, match=r"lm\.record is .* required: a file"):
            Recorder(path)
    Recorder(tmp_path / "new" / "file")
    assert not (tmp_path / "new").exists()
