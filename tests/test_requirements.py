from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from evoprompt.experiments import requirements
from evoprompt.experiments.requirements import GIB


def test_a_library_is_here_or_comes_with_its_command() -> None:
    assert not requirements.package("json", "pip install json").missing
    lacking = requirements.package("no_such_library", "pip install it")
    assert lacking.missing
    assert lacking.remedy == "pip install it"


def test_disk_and_memory_are_those_of_the_machine(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "yet"
    for gib, missing in ((0.0, False), (1e9, True)):
        assert requirements.disk(folder, gib).missing == missing
        assert requirements.memory(gib).missing == missing
    assert not folder.parent.exists()


def test_a_model_is_a_folder_with_its_weights(tmp_path: Path) -> None:
    assert "is no folder with a config.json" in requirements.model(str(tmp_path)).text
    assert "hf download" not in requirements.model(str(tmp_path)).remedy
    (tmp_path / "config.json").write_text("{}")
    assert "holds no *.safetensors" in requirements.model(str(tmp_path)).text
    (tmp_path / "model.safetensors").touch()
    assert not requirements.model(str(tmp_path)).missing
    assert requirements.model_folder(str(tmp_path)) == tmp_path


def test_without_the_hub_library_nothing_was_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "find_spec", lambda name: None)
    assert requirements.model_folder("Qwen/Qwen2.5-3B") is None


@pytest.mark.parametrize(
    ("count", "gib", "lacking"),
    [(2, None, ""), (2, 70.0, ""), (2, 90.0, "GPU memory"), (3, None, "GPU")],
)
def test_gpus_are_counted_and_weighed(
    count: int, gib: float | None, lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = SimpleNamespace(name="H100", total_memory=80 * GIB)
    cuda = SimpleNamespace(device_count=lambda: 2, get_device_properties=lambda number: one)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    found = requirements.gpus(count, gib)
    assert (found.subject if found.missing else "") == lacking
    assert "H100 with 80 GiB, H100 with 80 GiB" in found.text
