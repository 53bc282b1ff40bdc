"""Requirements of the task on this machine: its questions.

Nothing is loaded, downloaded or written; a missing file comes with the command that makes it.
"""

from __future__ import annotations

from pathlib import Path

from evoprompt.agents.tasks import Need


def questions(split: str, path: Path) -> Need:
    """Return the need of a parquet file of questions."""
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
