from __future__ import annotations

import pytest
from evoprompt_search_qa.data.records import Record, parse, to_row

from evoprompt.rows import question_from_row

ROW = {"id": "q1", "question": " who? ", "golden_answers": ["a", " ", "b"]}


def test_a_row_becomes_a_record() -> None:
    found = parse({**ROW, "hops": 2, "supporting_ids": ["7", "8"]}, "nq", "file:3")
    assert found == Record("nq", "q1", "who?", ("a", "b"), "file:3", 2, ("7", "8"))
    assert parse({**ROW, "id": 4, "golden_answers": "only"}, "nq", "p").answers == ("only",)


@pytest.mark.parametrize("hops", [None, "2", 0, -1, 10**30, 2.0])
def test_what_is_no_number_of_hops_is_not_known(hops: object) -> None:
    assert parse({**ROW, "hops": hops}, "nq", "p").hops is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"question": " "}, "asks nothing"),
        ({"question": None}, "asks nothing"),
        ({"golden_answers": []}, "has no answer"),
        ({"golden_answers": [""]}, "has no answer"),
        ({"golden_answers": 5}, "has no answer"),
        ({"id": None}, "has no 'id'"),
        ({"id": True}, "has no 'id'"),
    ],
)
def test_what_is_no_question_is_refused_with_the_reason(
    change: dict[str, object], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        parse({**ROW, **change}, "nq", "p")
    with pytest.raises(ValueError, match="required: an object"):
        parse([ROW], "nq", "p")


def test_the_row_written_is_the_question_that_evoprompt_reads() -> None:
    row = to_row(parse(ROW, "nq", "p"), "train", 5)
    question = question_from_row(row)
    assert (question.id, question.text, question.answers) == ("nq/q1", "who?", ("a", "b"))


def test_no_instruction_is_baked_into_the_prompt() -> None:
    row = to_row(parse(ROW, "nq", "p"), "train", 5)
    assert row["prompt"] == [{"role": "user", "content": "who?"}]
