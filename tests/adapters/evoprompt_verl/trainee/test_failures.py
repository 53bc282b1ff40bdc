from __future__ import annotations

from pathlib import Path

import pytest

from evoprompt.experiments.hosts.verl.failures import Failures


def test_reasons_are_taken_once(tmp_path: Path) -> None:
    failures = Failures(tmp_path / "unscored.txt")
    assert failures.take() == []
    failures.note(ConnectionError("the server\nis gone"))
    Failures(tmp_path / "unscored.txt").note(ValueError("odd"))  # of another process
    assert failures.take() == ["ConnectionError: the server is gone", "ValueError: odd"]
    assert failures.take() == []


def test_a_key_in_an_error_is_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-abcdefghij0123456789abcdefghij")
    failures = Failures(tmp_path / "unscored.txt")
    failures.note(ValueError("refused: api_key=sk-abcdefghij0123456789abcdefghij"))
    (line,) = failures.take()
    assert "0123456789" not in line
