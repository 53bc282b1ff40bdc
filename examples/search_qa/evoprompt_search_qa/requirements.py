"""The questions that are here.

Nothing is loaded, downloaded or written; a missing thing comes with the command that brings it.
"""

from __future__ import annotations

from pathlib import Path

from evoprompt.agents.tasks import Need


def questions(split: str, path: Path) -> Need:
    """A parquet file of questions."""
    import pyarrow
    import pyarrow.parquet

    remedy = f"evoprompt search-qa data prepare --output {path.parent} --validation 500"
    if not path.is_file():
        return Need(f"{split} questions", f"{path} does not exist", remedy)
    try:
        rows = pyarrow.parquet.ParquetFile(path).metadata.num_rows
    except (pyarrow.ArrowException, OSError) as error:
        return Need(f"{split} questions", f"{path} is no parquet file ({error})", remedy)
    return Need(f"{split} questions", f"{rows:,} in {path}")
