"""Questions with images, videos or sound are refused before anything is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from cpu_support.world import rows, write_rows
from evoprompt_verl.media import check_media
from omegaconf import DictConfig

from evoprompt.errors import InputError

Changed = Callable[[Mapping[str, object]], DictConfig]


def with_column(path: Path, name: str, values: list[Any]) -> str:
    found = rows(len(values))
    for row, value in zip(found, values, strict=True):
        row[name] = value
    write_rows(path, found)
    return str(path)


@pytest.mark.parametrize("split", ["train_files", "val_files"])
@pytest.mark.parametrize("column", ["images", "videos", "audios"])
def test_a_column_of_media_is_refused(
    changed: Changed, tmp_path: Path, split: str, column: str
) -> None:
    file = with_column(tmp_path / "x.parquet", column, [[], [{"bytes": b"1"}]])
    with pytest.raises(InputError, match=f"media in the column '{column}'.*text alone"):
        check_media(changed({f"data.{split}": file}))


def test_a_column_of_another_name_counts_where_it_is_named(
    changed: Changed, tmp_path: Path
) -> None:
    file = with_column(tmp_path / "x.parquet", "photos", [[{"bytes": b"1"}]])
    check_media(changed({"data.train_files": file}))
    with pytest.raises(InputError, match=r"data\.image_key"):
        check_media(changed({"data.train_files": file, "data.image_key": "photos"}))


def test_a_column_that_holds_nothing_is_text(changed: Changed, tmp_path: Path) -> None:
    check_media(
        changed({"data.train_files": with_column(tmp_path / "x.parquet", "images", [[], []])})
    )


def test_a_file_that_is_no_parquet_is_named(changed: Changed, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("no")
    with pytest.raises(InputError, match="required: a parquet file"):
        check_media(changed({"data.val_files": str(tmp_path / "x.parquet")}))
