from __future__ import annotations

import gc
import sqlite3
from pathlib import Path

import pytest
from evoprompt_sql.house import ORDER_COUNT, STAFF_COUNT, Rules
from evoprompt_sql.shop import MOST_WORK, Shop
from waiting import PATIENCE

from evoprompt.agents import ToolCall, Tools

SHOP = Shop(7, Rules().write)
TOOLS = Tools([SHOP.query], seconds=PATIENCE)
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"


def result(sql: str) -> str:
    (found,) = TOOLS([ToolCall("query", {"sql": sql})])
    assert isinstance(found, str)
    return found


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT COUNT(*) FROM orders", str(ORDER_COUNT)),
        ("SELECT 1, 'a' UNION SELECT 2, NULL", "1 | a\n2 | None"),
        ("SELECT name FROM staff WHERE team = 'None'", "no rows"),
        ("select count(*) from staff;", str(STAFF_COUNT)),
        (f"{ENDLESS} i FROM n LIMIT 2", "1\n2"),
    ],
)
def test_rows_are_shown(sql: str, rows: str) -> None:
    assert result(sql) == rows


def test_rows_are_limited_and_the_reader_is_told() -> None:
    lines = result("SELECT id FROM orders ORDER BY id").split("\n")
    assert lines == [*map(str, range(1, 21)), "more than 20 rows"]
    assert result("SELECT id FROM orders WHERE id <= 20").count("\n") == 19


@pytest.mark.parametrize(
    ("sql", "part"),
    [
        ("SELECT name FROM orders", "no such column: name"),
        ("SELEC 1", "syntax error"),
        ("", "no rows"),
        ("SELECT 1; SELECT 2", "one statement at a time"),
        ("DELETE FROM orders", "authoriz"),
        ("DROP TABLE orders", "authoriz"),
        ("INSERT INTO parcels VALUES (1, 'x')", "authoriz"),
        ("PRAGMA writable_schema = 1", "authoriz"),
        ("ATTACH DATABASE '/tmp/x' AS x", "authoriz"),
        ("VACUUM INTO '/tmp/x'", "authoriz"),
        ("SELECT load_extension('x')", "authoriz"),
        ("SELECT zeroblob(1000000000)", "too big"),
        ("SELECT 1" + " " * 1000, "more than 1000 characters"),
    ],
)
def test_what_cannot_or_must_not_be_done_is_an_error_to_read(sql: str, part: str) -> None:
    assert part in result(sql)
    assert result("SELECT COUNT(*) FROM orders") == str(ORDER_COUNT)


@pytest.mark.parametrize(
    "sql",
    [f"{ENDLESS} COUNT(*) FROM n", "SELECT COUNT(*) FROM orders a, orders b, orders c"],
)
def test_a_query_without_end_is_interrupted(sql: str) -> None:
    assert result(sql) == f"Error: TimeoutError: no result within {MOST_WORK:,} steps"


def test_the_same_shop_is_written_for_a_seed_and_another_for_another(tmp_path: Path) -> None:
    def dumped(name: str, seed: int) -> list[str]:
        Rules().write(tmp_path / name, seed)
        connection = sqlite3.connect(tmp_path / name)
        try:
            return list(connection.iterdump())
        finally:
            connection.close()

    first = dumped("a", 7)
    assert first == dumped("b", 7)
    assert first != dumped("c", 8)
    assert len(first) > ORDER_COUNT


def test_a_shop_leaves_no_file_behind() -> None:
    shop = Shop(3, Rules().write)
    assert shop.query("SELECT COUNT(*) FROM staff") == str(STAFF_COUNT)
    folder = shop.file.parent
    assert folder.is_dir()
    del shop
    gc.collect()
    assert not folder.exists()
