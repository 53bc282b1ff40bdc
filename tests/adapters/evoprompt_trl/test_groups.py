from __future__ import annotations

import pytest
from evoprompt_trl.groups import Layout, even_chunks, share_of
from hypothesis import given
from hypothesis import strategies as st

from evoprompt import EngineConfig
from evoprompt.errors import InputError


@given(
    group=st.integers(1, 6),
    candidates=st.integers(1, 3),
    questions=st.integers(1, 6),
    processes=st.integers(1, 5),
)
def test_all_processes_together_cover_every_assignment_equally(
    group: int, candidates: int, questions: int, processes: int
) -> None:
    layout = Layout(group * candidates, group, group)
    rows = layout.question * questions  # a process may hold any share of the global batch
    plan = [index for process in range(processes) for index in layout.assignments(process, rows)]
    assert plan == [
        index for index in range(questions * candidates * processes) for _ in range(group)
    ]


@given(group=st.integers(1, 6), rows=st.integers(1, 20), processes=st.integers(1, 5))
def test_every_question_begins_on_exactly_one_process(
    group: int, rows: int, processes: int
) -> None:
    layout = Layout(group, group, group)
    begins = [
        process * rows + row
        for process in range(processes)
        for row in layout.first_rows(process, rows)
    ]
    assert begins == list(range(0, processes * rows, group))


def test_a_group_may_begin_on_one_process_and_end_on_the_next() -> None:
    layout = Layout.of(4, EngineConfig())
    assert layout.assignments(process=0, rows=6) == [0, 0, 0, 0, 1, 1]
    assert layout.assignments(process=1, rows=6) == [1, 1, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("generations", "settings", "expected"),
    [
        (4, {}, Layout(4, 4, 4)),
        (8, {"candidates_per_question": 2}, Layout(8, 4, 4)),
        (8, {"candidates_per_question": 2, "grouping": "question"}, Layout(8, 4, 8)),
        (4, {"candidates_per_question": 4, "grouping": "question"}, Layout(4, 1, 4)),
    ],
)
def test_rows_of_a_question_are_shared_out_by_the_grouping(
    generations: int, settings: dict[str, object], expected: Layout
) -> None:
    assert Layout.of(generations, EngineConfig.model_validate(settings)) == expected


@pytest.mark.parametrize(
    ("generations", "candidates", "message"),
    [
        (1, 1, "num_generations is 1; required: at least 2"),
        (5, 2, "num_generations is 5 with candidates_per_question 2; required: a multiple"),
        (3, 3, "leaves 1 rollout a candidate; required: at least 2"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    generations: int, candidates: int, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Layout.of(generations, EngineConfig(candidates_per_question=candidates))


@given(st.lists(st.integers(), max_size=50), st.integers(1, 20))
def test_chunks_keep_all_rows_in_order_and_are_even(rows: list[int], most: int) -> None:
    chunks = even_chunks(rows, most)
    assert [row for chunk in chunks for row in chunk] == rows
    assert len(chunks) == -(-len(rows) // most)
    sizes = [len(chunk) for chunk in chunks]
    assert max(sizes, default=1) <= most
    assert max(sizes, default=0) - min(sizes, default=0) <= 1


@given(st.lists(st.integers(), min_size=1, max_size=30), st.integers(1, 7))
def test_shares_are_equal_and_begin_with_the_chunk(chunk: list[int], processes: int) -> None:
    shares = [share_of(chunk, process, processes) for process in range(processes)]
    together = [row for share in shares for row in share]
    assert together[: len(chunk)] == chunk
    assert len({len(share) for share in shares}) == 1
    assert len(together) >= 2
    assert len(together) - len(chunk) <= max(processes - 1, 1)
