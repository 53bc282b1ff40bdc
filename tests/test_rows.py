"""Dataset rows of every usual schema become questions."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from evoprompt.hosting.rows import question_from_row, row_of, texts_of, training_question, unkept
from evoprompt.optimizer.data import items_of
from evoprompt.support.errors import EvopromptWarning, InputError
from evoprompt.types import (
    Question,
)

ASKED = "Who wrote the novel?"
PROMPTED = "Answer the given question: Who wrote the novel?"
SEARCH_R1 = {
    "id": "train_7",
    "question": ASKED,
    "golden_answers": ["Ann Lee", "Lee"],
    "data_source": "nq",
    "prompt": [{"role": "user", "content": PROMPTED}],
    "reward_model": {"style": "rule", "ground_truth": {"target": ["Ann Lee", "Lee"]}},
    "extra_info": {"index": 7, "split": "train"},
}


class TestQuestionFromRow:
    @pytest.mark.parametrize(
        ("row", "identity", "text", "answers"),
        [
            pytest.param(SEARCH_R1, "nq/train_7", ASKED, ("Ann Lee", "Lee"), id="Search-R1"),
            pytest.param(
                {
                    "prompt": [
                        {"role": "system", "content": "Be brief."},
                        {"role": "user", "content": ASKED},
                    ],
                    "reward_model": {"ground_truth": "Ann Lee"},
                    "extra_info": {"index": 12},
                },
                "12",
                ASKED,
                ("Ann Lee",),
                id="veRL",
            ),
            pytest.param(
                {"prompt": ASKED, "answer": "Ann Lee", "id": 0},
                "0",
                ASKED,
                ("Ann Lee",),
                id="TRL, plain text",
            ),
            pytest.param(
                {
                    "id": "x",
                    "prompt": [
                        {"role": "user", "content": "Hello"},
                        {"role": "assistant", "content": "What is it?"},
                        {"role": "user", "content": ASKED},
                    ],
                    "gold": ["Lee"],
                },
                "x",
                ASKED,
                ("Lee",),
                id="TRL, a conversation",
            ),
            pytest.param(
                {"id": "q1", "question": "2 + 2?", "answer": 4},
                "q1",
                "2 + 2?",
                ("4",),
                id="a number as answer",
            ),
            pytest.param(
                {"id": "q1", "question": "", "prompt": ASKED, "extra_info": None},
                "q1",
                ASKED,
                (),
                id="an empty question beside a prompt",
            ),
        ],
    )
    def test_reads_every_usual_schema(
        self, row: Mapping[str, Any], identity: str, text: str, answers: tuple[str, ...]
    ) -> None:
        assert question_from_row(row) == Question(identity, text, answers, row)

    def test_without_an_id_equal_rows_and_only_they_share_one(self) -> None:
        one, same = {"prompt": ASKED, "hops": 2}, {"hops": 2, "prompt": ASKED}
        other = {"prompt": ASKED, "hops": 3}
        found = [question_from_row(row).id for row in (one, same, other)]
        assert found[0] == found[1] != found[2]

    @pytest.mark.parametrize(
        "row",
        [
            {"id": "q1"},
            {"question": "  "},
            {"prompt": [{"role": "assistant", "content": "Hello"}]},
            {"question": 7},
        ],
    )
    def test_refuses_a_row_that_asks_nothing(self, row: Mapping[str, Any]) -> None:
        with pytest.raises(InputError, match=r"asks nothing: its columns are .*required"):
            question_from_row(row)

    @pytest.mark.parametrize(
        "value",
        [
            math.inf,
            b"\x00\xff",
            datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
            date(2026, 1, 2),
            [{"when": datetime(2026, 1, 2)}, None, 0.5],
            np.float32(0.5),
            np.datetime64("2026-01-02T03:04"),
        ],
    )
    def test_gives_back_any_value_as_it_was(self, value: object) -> None:
        row = {"id": "q1", "question": ASKED, "extra": value}
        kept = question_from_row(row)
        json.dumps(dict(kept.row), allow_nan=False).encode()
        assert row_of(kept) == row
        assert type(row_of(kept)["extra"]) is type(value)
        assert not unkept(row)

    def test_gives_back_nan_arrays_and_images(self) -> None:
        picture = Image.new("RGB", (2, 1), (255, 0, 7))
        row = {"prompt": ASKED, "nan": math.nan, "many": np.eye(2), "seen": picture}
        kept = question_from_row(row)
        json.dumps(dict(kept.row), allow_nan=False)
        found = row_of(kept)
        assert math.isnan(found["nan"])
        assert np.array_equal(found["many"], np.eye(2))
        assert found["seen"].tobytes() == picture.tobytes()

    def test_what_nobody_can_keep_is_none_and_named(self) -> None:
        row = {"question": ASKED, "sound": [object()], "other": 1}
        assert unkept(row) == {"sound": "object"}
        with pytest.warns(EvopromptWarning, match=r"'sound' holds values of type object"):
            kept = question_from_row(row)
        assert row_of(kept) == {"question": ASKED, "sound": [None], "other": 1}

    @pytest.mark.parametrize(
        ("gold", "answers"),
        [
            ({"text": ["Ann Lee", "Lee", "Lee"], "answer_start": [3, 7, 7]}, ("Ann Lee", "Lee")),
            ({"value": "Ann Lee", "aliases": ["Lee"], "type": "Person"}, ("Ann Lee", "Lee")),
            ([{"text": "Ann Lee"}, {"text": ["Lee"]}], ("Ann Lee", "Lee")),
            (np.array(["Ann Lee", "Lee"]), ("Ann Lee", "Lee")),
            ({"unanswerable": True}, ()),
        ],
        ids=["SQuAD", "TriviaQA", "a list of mappings", "an array", "no answer"],
    )
    def test_reads_answers_in_mappings(self, gold: object, answers: tuple[str, ...]) -> None:
        for row in ({"answers": gold}, {"reward_model": {"ground_truth": gold}}):
            assert sorted(question_from_row({"question": ASKED, **row}).answers) == sorted(answers)

    @given(
        st.dictionaries(
            st.text(max_size=4).filter(lambda key: key not in ("question", "extra_info")),
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.text(max_size=4),
                # No lambda: its source is read when it is drawn from, and may have changed.
                partial(st.lists, max_size=3),
                max_leaves=5,
            ),
            max_size=4,
        )
    )
    def test_carries_any_json_row_unchanged(self, extra: dict[str, Any]) -> None:
        row = {"question": ASKED, **extra}
        assert question_from_row(row).row == row


def test_texts_of_a_dataset_are_those_of_its_questions_and_a_stream_is_left_alone() -> None:
    rows = [SEARCH_R1, {**SEARCH_R1, "question": "Who drew the map?"}, SEARCH_R1]
    dataset = Dataset.from_list([{**row, "asked": row["prompt"]} for row in rows])
    texts = [question_from_row(row).text for row in rows]
    assert texts_of(dataset, "prompt", 2) == texts[:2]
    assert texts_of(dataset.remove_columns("question"), "asked", 9) == [PROMPTED] * 3
    assert texts_of(dataset.to_iterable_dataset(), "prompt", 2) == []
    assert texts_of(rows, "prompt", 2) == []
    assert texts_of(dataset.with_transform(lambda batch: batch), "prompt", 2) == []


def prompt(text: str, *, system: str = "", **columns: object) -> dict[str, Any]:
    messages = [{"role": "system", "content": system}] if system else []
    return {"prompt": [*messages, {"role": "user", "content": text}], **columns}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (prompt("Why?", id=0), prompt("How?", id=0)),
        (prompt("Why?", system="Be old.", id=0), prompt("Why?", system="Be new.", id=0)),
        (prompt("Why?", extra_info={"index": 3}), prompt("How?", extra_info={"index": 3})),
        ({"prompt": "Why?", "id": 1}, {"prompt": "How?", "id": 1}),
        (prompt("", id=0, level=1), prompt("", id=0, level=2)),
        (prompt("Why?", id=0, image=b"a"), prompt("Why?", id=0, image=b"b")),
        (prompt("Why?", id=0, video=b"a"), prompt("Why?", id=0, video=b"b")),
    ],
    ids=["id", "system message", "index", "plain text", "an environment's", "image", "video"],
)
def test_data_sets_that_are_each_numbered_from_0_have_questions_of_their_own(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> None:
    assert training_question(first, 0).id != training_question(second, 1).id
    assert training_question(first, 0) == training_question(dict(first), 7)


def test_where_an_environment_is_given_the_row_every_column_asks() -> None:
    first, second = prompt("Play.", id=0, level=1), prompt("Play.", id=0, level=2)
    ids = {training_question(row, 0, "", is_for_environment=True).id for row in (first, second)}
    assert len(ids) == 2


def test_what_does_not_ask_is_no_part_of_a_questions_id() -> None:
    first, second = prompt("Why?", id=4, step=1), prompt("Why?", id=4, step=2)
    assert training_question(first, 0).id == training_question(second, 0).id
    assert training_question(first, 0).id.startswith("4-")


def test_values_that_json_lacks_hide_no_question_and_no_answer() -> None:
    row = {
        "question": "How much?",
        "answer": Decimal("4.50"),
        "seen": date(2026, 1, 2),
        "price": np.float32(2),
        "scores": np.arange(2),
        "raw": b"\xff",
        "tags": {"b", "a"},
        3: None,
    }
    (item,) = items_of([row], "trainset")
    assert (item.question.text, item.question.answers) == ("How much?", ("4.50",))
    (unasked,) = items_of([{"text": "It was late.", "day": date(2026, 1, 2)}], "trainset")
    assert unasked.question.text == '{"text": "It was late.", "day": "2026-01-02"}'
