from __future__ import annotations

from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from evoprompt_search_qa.open.questions import read_questions

from evoprompt.support.errors import InputError


def test_prepared_questions_are_read(data: Path) -> None:
    found = read_questions(data / "train.parquet")
    assert len(found) == 6
    assert found[0].row["data_source"] == "nq"
    assert all(one.answers and one.text.startswith("Where was ") for one in found)
    assert read_questions(data / "train.parquet", 2) == found[:2]


def test_rows_of_search_r1_are_read_too(tmp_path: Path) -> None:
    row = {
        "data_source": "nq",
        "prompt": [{"role": "user", "content": "who?"}],
        "reward_model": {"ground_truth": {"target": ["me"]}},
        "extra_info": {"index": 3},
    }
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "rows.parquet")
    (found,) = read_questions(tmp_path / "rows.parquet")
    assert (found.id, found.text, found.answers) == ("nq/3", "who?", ("me",))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "holds no question"),
        ([{"id": "1", "question": "", "golden_answers": ["a"]}], "row 1: a dataset row asks"),
        (
            [
                {"id": "1", "question": "who?", "golden_answers": ["a"]},
                {"id": "2", "question": "who?", "golden_answers": []},
            ],
            "row 2 has no answer",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    tmp_path: Path, rows: list[dict[str, object]], said: str
) -> None:
    schema = pyarrow.schema(
        {
            "id": pyarrow.string(),
            "question": pyarrow.string(),
            "golden_answers": pyarrow.list_(pyarrow.string()),
        }
    )
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema), path)
    with pytest.raises(InputError, match=said) as caught:
        read_questions(path)
    assert str(path) in str(caught.value)


def test_files_that_are_none_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"does not exist; .* data prepare"):
        read_questions(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(InputError, match="is no parquet file"):
        read_questions(tmp_path / "text.parquet")
