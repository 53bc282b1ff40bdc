"""Database that is queried over a read-only connection, with limits."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from functools import cached_property, lru_cache
from itertools import count
from pathlib import Path
from weakref import finalize

MOST_ROWS = 20
MOST_CHARACTERS = 1_000
MOST_WORK = 50_000_000
"""Instructions of SQLite's virtual machine that a query may take, less than a second.

Counted, as the reward of a query must not depend on how busy the machine is."""
LARGEST_VALUE = 100_000
"""Longest text or blob a query may make, in bytes."""

_READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
_REMEMBERED = 20_000  # results, of 20 lines at most
_CHECK_EVERY = 1_000  # instructions


class Shop:
    """Database in a temporary file that is removed with the object.

    Args:
        seed: of the database.
        write: writes the database of a seed to a new file.
    """

    def __init__(self, seed: int, write: Callable[[Path, int], None]) -> None:
        self._seed = seed
        self._write = write
        # The file never changes, and policies repeat queries.
        self._cached_find = lru_cache(_REMEMBERED)(self._find)

    @cached_property
    def file(self) -> Path:
        """Return the database, written at its first use."""
        folder = Path(tempfile.mkdtemp(prefix="evoprompt-sql-"))
        finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._write(folder / "shop.db", self._seed)
        return folder / "shop.db"

    def query(self, sql: str) -> str:
        """Return the rows of a SELECT, one a line.

        Raises:
            sqlite3.Error: it is no SQL, or does more than read.
            ValueError: it is too long.
            TimeoutError: it takes too much work.
        """
        if len(sql) > MOST_CHARACTERS:
            raise ValueError(f"more than {MOST_CHARACTERS} characters")
        return self._cached_find(sql)

    def _find(self, sql: str) -> str:
        connection = sqlite3.connect(f"{self.file.as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
            connection.set_authorizer(_only_reading)
            checks = count(1)
            connection.set_progress_handler(
                lambda: next(checks) * _CHECK_EVERY > MOST_WORK, _CHECK_EVERY
            )
            rows = connection.execute(sql).fetchmany(MOST_ROWS + 1)
        except sqlite3.OperationalError as error:
            if str(error) != "interrupted":
                raise
            raise TimeoutError(f"no result within {MOST_WORK:,} steps") from None
        finally:
            connection.close()
        lines = [" | ".join(map(str, row)) for row in rows[:MOST_ROWS]]
        if len(rows) > MOST_ROWS:
            lines.append(f"more than {MOST_ROWS} rows")
        return "\n".join(lines) or "no rows"


def _only_reading(
    action: int, first: str | None, second: str | None, database: str | None, inner: str | None
) -> int:
    return sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY
