from __future__ import annotations

from pathlib import Path

import pytest
from evoprompt_search_qa.policies.endpoint import load, revision
from evoprompt_search_qa.policies.revision import weights_revision
from openai.resources import Models
from openai.types import Model

from evoprompt.errors import InputError
from evoprompt.testing.openai_server import OpenAIServer

URL = "http://127.0.0.1:9/v1"


def serve(monkeypatch: pytest.MonkeyPatch, *served: dict[str, object]) -> None:
    """Lets the server say that it serves these models."""
    found = [Model.model_construct(**one) for one in served]  # type: ignore[arg-type]
    monkeypatch.setattr(Models, "list", lambda _: found)


def test_a_server_that_says_nothing_of_its_model_leaves_the_revision_unknown() -> None:
    with OpenAIServer() as server:
        assert revision("m", server.url) == ""


@pytest.mark.parametrize(
    ("fields", "known"),
    [({"root": "org/model"}, "org/model"), ({"created": 17}, "created 17"), ({}, "")],
)
def test_the_revision_is_what_the_server_says(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, object], known: str
) -> None:
    serve(monkeypatch, {"id": "other", "root": "x"}, {"id": "m", **fields})
    assert revision("m", URL) == known


def test_a_model_in_a_folder_of_this_machine_is_told_by_its_weights(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    serve(monkeypatch, {"id": "m", "root": str(tmp_path)})
    (tmp_path / "model.safetensors").write_bytes(b"one")
    before = revision("m", URL)
    assert before == revision("m", URL) == weights_revision(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"two")
    assert revision("m", URL) != before


def test_a_tokenizer_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--tokenizer is .* which cannot be loaded"):
        load("m", URL, str(tmp_path))
