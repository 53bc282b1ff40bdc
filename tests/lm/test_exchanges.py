from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evoprompt.errors import InputError, StateError
from evoprompt.lm import ReplayError
from evoprompt.lm.exchanges import Recorder, Replay, difference, digest


def request(text: str) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "text": text}]}


def response(text: str) -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {"response": {"model": "m", "text": text, "finish_reason": "stop", **usage}}


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "run" / "exchanges.jsonl"
    recorder = Recorder(path)
    recorder.add(request("a"), response("first a"))
    recorder.add(request("b"), response("b"))
    recorder.add(request("a"), response("second a"))
    return path


def test_exchanges_are_replayed_in_any_order(recording: Path) -> None:
    replay = Replay(recording)
    assert replay.outcome(request("b"))["response"]["text"] == "b"
    assert replay.outcome(request("a"))["response"]["text"] == "first a"
    assert replay.outcome(request("a"))["response"]["text"] == "second a"


def test_an_unseen_request_names_the_first_divergence(recording: Path) -> None:
    replay = Replay(recording)
    replay.outcome(request("a"))
    with pytest.raises(ReplayError) as caught:
        replay.outcome(request("big"))
    message = str(caught.value)
    assert "request 2 of the replay" in message
    assert "recorded exchange 2 is at messages[0].text, character 1" in message


def test_an_exchange_is_replayed_once(recording: Path) -> None:
    replay = Replay(recording)
    for text in ("a", "a", "b"):
        replay.outcome(request(text))
    with pytest.raises(ReplayError, match="all 3 recorded exchanges were used"):
        replay.outcome(request("b"))


def test_a_resumed_replay_continues(recording: Path) -> None:
    before, after = Replay(recording), Replay(recording)
    before.outcome(request("a"))
    after.load_state_dict(json.loads(json.dumps(before.state_dict())))
    assert after.outcome(request("a"))["response"]["text"] == "second a"
    with pytest.raises(StateError):
        after.load_state_dict({})


def test_an_exchange_cut_by_a_kill_is_left_out(recording: Path) -> None:
    with recording.open("a") as file:
        file.write('{"digest": "12", "request": {"mod')
    Recorder(recording).add(request("c"), response("c"))
    replay = Replay(recording)
    for text in ("a", "b", "a", "c"):
        replay.outcome(request(text))


def test_an_exchange_cut_by_a_full_disk_is_left_out_and_the_next_ones_kept(
    recording: Path,
) -> None:
    recorder = Recorder(recording)
    recorder.add(request("c"), response("c"))
    with recording.open("a") as file:
        file.write('{"digest": "12", "request": {"model": {}}')  # as much as there was room for
    recorder.add(request("d"), response("d"))
    replay = Replay(recording)
    for text in ("a", "b", "a", "c", "d"):
        replay.outcome(request(text))


def test_any_text_can_be_recorded(tmp_path: Path) -> None:
    text = "one\u2028two\x85three\n{four}"
    (tmp_path / "lm.jsonl").touch()
    Recorder(tmp_path / "lm.jsonl").add(request(text), response(text))
    assert Replay(tmp_path / "lm.jsonl").outcome(request(text))["response"]["text"] == text


def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    for name in ("notes.txt", "missing.jsonl"):
        with pytest.raises(InputError, match="cannot be replayed"):
            Replay(tmp_path / name)


def test_equal_requests_have_equal_digests_whatever_the_order_of_their_keys() -> None:
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1}) != digest({"a": 1, "b": [3]})


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 2}}, "a.b"),
        ({"a": [1, 2]}, {"a": [1]}, "a"),
        ({"a": 1}, {"a": 1, "b": 2}, "b"),
        ({"t": "abcd"}, {"t": "abxd"}, "t, character 2: '...ab'"),
    ],
)
def test_a_difference_is_located(old: object, new: object, where: str) -> None:
    found = difference(old, new)
    assert found is not None
    assert found[0] == where


def test_equal_values_do_not_differ() -> None:
    assert difference({"a": [1, "x"]}, {"a": [1, "x"]}) is None


def test_no_credential_is_kept_and_the_recording_still_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "abc.def-123456")
    path = tmp_path / "exchanges.jsonl"
    asked = request("call http://me:pw1234@host")
    error = {"kind": "LMError", "status": 401, "message": "wrong key abc.def-123456"}
    recorder = Recorder(path)
    recorder.add(asked, response("I used Authorization: Bearer abc.def-123456"))
    recorder.add(asked, {"error": error})
    text = path.read_text(encoding="utf-8")
    assert not [secret for secret in ("pw1234", "123456", "1234") if secret in text]
    replay = Replay(path)
    assert replay.outcome(asked)["response"]["text"] == "I used Authorization: Bearer ***"
    assert replay.outcome(asked)["error"]["message"] == "wrong key ***"


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "below", tmp_path / ("x" * 5_000)):
        with pytest.raises(InputError, match=r"lm\.record is .* required: a file"):
            Recorder(path)
    Recorder(tmp_path / "new" / "file")
    assert not (tmp_path / "new").exists()
