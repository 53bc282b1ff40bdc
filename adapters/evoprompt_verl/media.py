"""Questions with images, videos or sound, which an engine cannot ask again to verify."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow
import pyarrow.parquet
from omegaconf import DictConfig

from evoprompt.errors import InputError

COLUMNS: Mapping[str, str] = {
    "image_key": "images",
    "video_key": "videos",
    "audio_key": "audios",
}
"""Settings under ``data`` that name a column of media, with veRL's defaults."""


def check_media(config: DictConfig) -> None:
    """Checks that the questions in local parquet files are text alone.

    Raises:
        InputError: some are not, or a file cannot be read.
    """
    columns = {config.data.get(key, name): key for key, name in COLUMNS.items()}
    for path in local_files(config):
        try:
            file = pyarrow.parquet.ParquetFile(path)
            names = [name for name in file.schema_arrow.names if name in columns]
            found = next((name for name in names if _holds_media(file, name)), None)
        except pyarrow.ArrowException as error:
            raise unreadable(path, error) from error
        if found is not None:
            raise InputError(
                f"{path} has media in the column {found!r} (data.{columns[found]}); required: "
                "questions of text alone, for the engine keeps questions as JSON to verify new "
                "instructions on them; train on a text dataset, or without evoprompt"
            )


def local_files(config: DictConfig) -> Iterator[Path]:
    """The parquet files of questions on this machine, to train on and to validate with."""
    for files in (config.data.train_files, config.data.val_files):
        for name in [files] if isinstance(files, str) else list(files or ()):
            path = Path(name)
            if path.suffix == ".parquet" and path.is_file():
                yield path


def unreadable(path: Path, error: Exception) -> InputError:
    """The error to raise for a parquet file that is none."""
    told = " ".join(str(error).split())[:200]
    return InputError(
        f"{path} cannot be read ({told}); required: a parquet file; check data.train_files and "
        "data.val_files"
    )


def _holds_media(file: pyarrow.parquet.ParquetFile, name: str) -> bool:
    batches = file.iter_batches(batch_size=64, columns=[name])
    return any(value for batch in batches for value in batch.column(0).to_pylist())
