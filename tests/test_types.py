"""Records are plain, frozen and picklable; dataset rows of every usual schema become questions."""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Mapping
from dataclasses import FrozenInstanceError
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoprompt.errors import InputError
from evoprompt.testing.samples import candidate, question, trajectory
from evoprompt.types import (
    Assignment,
    Candidate,
    CandidateStats,
    Proposal,
    Question,
    TextLimits,
    Trajectory,
    Turn,
    question_from_row,
)

ASKED = "Who wrote the novel?"
SEARCH_R1 = {
    "id": "train_7",
    "question": ASKED,
    "golden_answers": ["Ann Lee", "Lee"],
    "data_source": "nq",
    "prompt": [{"role": "user", "content": "Answer the given question: Who wrote the novel?"}],
    "reward_model": {"style": "rule", "ground_truth": {"target": ["Ann Lee", "Lee"]}},
    "extra_info": {"index": 7, "split": "train"},
}


class TestRecords:
    @pytest.mark.parametrize(
        ("record", "field"),
        [
            (question(1), "text"),
            (candidate(1), "id"),
            (Turn("a", "o"), "action"),
            (trajectory(candidate(1), question(1), 0.5), "reward"),
            (Proposal.of("Search."), "rationale"),
        ],
    )
    def test_are_frozen_and_pickle(self, record: object, field: str) -> None:
        with pytest.raises(FrozenInstanceError):
            setattr(record, field, "other")
        assert pickle.loads(pickle.dumps(record)) == record

    def test_text_of_several_components_is_joined_by_blank_lines(self) -> None:
        components = {"instruction": "Search first.", "tool": "search(query) looks things up."}
        together = "Search first.\n\nsearch(query) looks things up."
        assert Candidate("c0", components).text == together
        assert Proposal(components).text == together

    def test_a_proposal_of_a_text_names_its_parents(self) -> None:
        proposal = Proposal.of("Search.", candidate(2), candidate(5), rationale="it did not")
        assert proposal == Proposal({"instruction": "Search."}, ("c2", "c5"), "it did not")

    def test_a_trajectory_knows_its_question_candidate_and_text(self) -> None:
        asked, who = question(3), candidate(1)
        turns = (Turn("<search>x</search>", "a passage"), Turn("<answer>6</answer>"))
        found = Trajectory(Assignment("a0", asked, who, 2, "a0"), 1.0, 1, turns)
        assert found.question is asked
        assert found.candidate is who
        assert found.text == "<search>x</search>a passage<answer>6</answer>"

    def test_nothing_is_known_of_a_candidate_that_was_never_measured(self) -> None:
        stats = CandidateStats(candidate(0), 0.0)
        assert (stats.groups, stats.stderr) == (0, math.inf)
        assert stats.objectives == stats.by_question == {}

    def test_tokens_are_estimated_until_a_tokenizer_is_known(self) -> None:
        count = TextLimits().count_tokens
        assert count("do it in a go") == 5  # words
        assert count("a" * 100) == 20  # bytes, where there are no words


class TestRequireFinite:
    @pytest.mark.parametrize("reward", [None, 0.0, -1e100, 1e100, 1, True])
    def test_takes_numbers_and_none(self, reward: float | None) -> None:
        trajectory(candidate(0), question(0), reward).require_finite()

    @pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf, 1e101])
    def test_names_a_reward_that_is_no_usable_number(self, reward: float) -> None:
        broken = trajectory(candidate(0), question(0), reward)
        with pytest.raises(InputError, match=re.escape(f"reward {reward} of assignment 'c0-q0'")):
            broken.require_finite()

    def test_names_a_metric_that_is_no_number(self) -> None:
        told = trajectory(candidate(0), question(0), 1.0)
        broken = Trajectory(told.assignment, 1.0, metrics={"turns": 2.0, "tokens": math.nan})
        with pytest.raises(InputError, match="tokens nan of assignment"):
            broken.require_finite()


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
                {"id": "q1", "question": ASKED, "golden_answers": ["Ann Lee"]},
                "q1",
                ASKED,
                ("Ann Lee",),
                id="plain question and answers",
            ),
            pytest.param(
                {"id": "q1", "question": ASKED, "answers": ["A", "B"]},
                "q1",
                ASKED,
                ("A", "B"),
                id="answers",
            ),
            pytest.param(
                {"id": "q1", "question": "2 + 2?", "answer": 4},
                "q1",
                "2 + 2?",
                ("4",),
                id="a number as answer",
            ),
            pytest.param({"id": "q1", "question": ASKED}, "q1", ASKED, (), id="without answers"),
            pytest.param(
                {"id": "q1", "question": ASKED, "answers": [], "answer": "Lee"},
                "q1",
                ASKED,
                ("Lee",),
                id="an empty list of answers beside one",
            ),
            pytest.param(
                {"id": None, "extra_info": {"index": 3}, "question": ASKED, "answers": []},
                "3",
                ASKED,
                (),
                id="an empty id",
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

    def test_keeps_a_copy_of_the_row(self) -> None:
        row: dict[str, Any] = {"id": "q1", "question": ASKED, "hops": [1]}
        kept = question_from_row(row)
        row["hops"].append(2)
        assert kept.row["hops"] == [1]

    @pytest.mark.parametrize(
        "row",
        [
            {"id": "q1"},
            {"question": "  "},
            {"prompt": []},
            {"prompt": [{"role": "assistant", "content": "Hello"}]},
            {"prompt": [{"role": "user", "content": None}]},
            {"question": 7},
        ],
    )
    def test_refuses_a_row_that_asks_nothing(self, row: Mapping[str, Any]) -> None:
        with pytest.raises(InputError, match=r"asks nothing: its columns are .*required"):
            question_from_row(row)

    @pytest.mark.parametrize("value", [math.nan, math.inf, object(), b"bytes", "\ud800"])
    def test_refuses_what_a_checkpoint_could_not_hold(self, value: object) -> None:
        with pytest.raises(InputError, match="cannot be kept for verification"):
            question_from_row({"id": "q1", "question": ASKED, "extra": value})

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
