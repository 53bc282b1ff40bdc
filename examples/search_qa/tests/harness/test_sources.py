from __future__ import annotations

import json
from pathlib import Path

import pytest
from evoprompt_search_qa.data.prepare import Preparation, prepare
from evoprompt_search_qa.harness.sources import HOPS, TABLE_ORDER, find_data_sets
from evoprompt_search_qa.tiny.task import SearchQa

from evoprompt.errors import InputError

GOOD = {"id": "1", "question": "Who?", "golden_answers": ["Ada"]}


def lines(path: Path, *rows: object) -> Path:
    path.write_text(
        "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)
    )
    return path


def test_the_tiny_world_has_a_set_for_each_number_of_hops() -> None:
    found = find_data_sets(["tiny"], None, None, pytest.fail)
    assert tuple(one.name for one in found) == HOPS
    assert sum(len(one.questions) for one in found) == len(SearchQa().questions("test"))
    assert {question.row["hops"] for question in found[1].questions} == {2}


def test_all_are_the_seven_in_the_order_of_the_paper(tmp_path: Path) -> None:
    for name in TABLE_ORDER:
        lines(tmp_path / f"{name}_test.jsonl", GOOD)
    found = find_data_sets(["all", "nq"], tmp_path, None, pytest.fail)
    assert tuple(one.name for one in found) == TABLE_ORDER


def test_prepared_parquet_is_read_set_by_set(tmp_path: Path) -> None:
    other = {**GOOD, "question": "Where?", "golden_answers": ["Ulm", "Ulm, Germany"]}
    lines(tmp_path / "popqa_test.jsonl", GOOD)
    lines(tmp_path / "nq_test.jsonl", other)
    lines(tmp_path / "nq_train.jsonl", {**other, "question": "When?"})
    what = Preparation(str(tmp_path), train=["nq"], test=["nq", "popqa"])
    prepare(what, tmp_path / "prepared")
    (nq,) = find_data_sets(["nq"], tmp_path / "prepared", None, pytest.fail)
    assert [(one.text, one.answers) for one in nq.questions] == [
        ("Where?", ("Ulm", "Ulm, Germany"))
    ]
    with pytest.raises(InputError, match=r"the set musique in .*test\.parquet holds no usable"):
        find_data_sets(["musique"], tmp_path / "prepared", None, pytest.fail)


def test_bad_rows_are_named_by_file_and_line_and_the_rest_is_kept(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "mine.jsonl",
        GOOD,
        {**GOOD, "id": "2", "question": "  "},
        {**GOOD, "id": "3", "golden_answers": []},
        "{broken",
        {**GOOD, "id": "4"},
        GOOD,
        "[" * 100_000,
        '{"id": "5", "question": "half \\ud83c?", "golden_answers": ["x"]}',
    )
    skipped: list[str] = []
    (found,) = find_data_sets([str(path)], None, None, skipped.append)
    assert found.name == "mine"
    assert [question.id for question in found.questions] == ["1", "4"]
    assert [place.split(": ")[0] for place in skipped] == [
        f"{path}:{n}" for n in (2, 3, 4, 6, 7, 8)
    ]
    assert "asks nothing" in skipped[0]
    assert "has no answer" in skipped[1]


def test_a_limit_takes_the_first_questions(tmp_path: Path) -> None:
    path = lines(tmp_path / "mine.jsonl", *({**GOOD, "id": str(n)} for n in range(5)))
    (found,) = find_data_sets([str(path)], None, 2, pytest.fail)
    assert [question.id for question in found.questions] == ["0", "1"]


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for names, data, said in (
        (["hotpot"], None, "did you mean 'hotpotqa'"),
        (["nq"], None, "required: --data"),
        (["nq"], tmp_path, "holds neither nq_test.jsonl nor test.parquet"),
        ([str(tmp_path / "none.jsonl")], None, "is not there"),
        ([str(lines(tmp_path / "empty.jsonl"))], None, "holds no usable question"),
    ):
        with pytest.raises(InputError, match=said):
            find_data_sets(names, data, None, lambda place: None)


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    names = [str(lines(tmp_path / place / "q.jsonl", GOOD)) for place in ("", "a")]
    with pytest.raises(InputError, match="has the heading 'q', as another one does"):
        find_data_sets(names, None, None, pytest.fail)
