from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evoprompt.experiments.report.history import TrialHistory
from evoprompt.experiments.report.lanes import lanes
from evoprompt.experiments.report.lineage import story
from evoprompt.experiments.report.records import Life


def life(name: str, born: int, died: int | None, *parents: str, text: str = "") -> Life:
    return Life(name, text or f"Text of {name}.", parents, born, died)


SPANS = st.lists(st.tuples(st.integers(0, 40), st.none() | st.integers(0, 40)), max_size=25)


@given(SPANS)
def test_no_two_lives_overlap_in_a_row(spans: list[tuple[int, int | None]]) -> None:
    lives = [
        life(f"c{index}", born, None if length is None else born + length)
        for index, (born, length) in enumerate(sorted(spans, key=lambda span: span[0]))
    ]
    rows = lanes(lives, end=80)
    for one in lives:
        for other in lives:
            if one is not other and rows[one.candidate] == rows[other.candidate]:
                first, second = sorted((one, other), key=lambda found: found.born)
                assert first.died is not None
                assert first.died < second.born


def test_the_winning_descent_comes_first() -> None:
    lives = [life("c0", 0, 5), life("c1", 3, 9), life("c2", 3, 9), life("c3", 8, None)]
    assert lanes(lives, end=12, first={"c0", "c2", "c3"}) == {"c0": 0, "c2": 1, "c3": 0, "c1": 2}


def test_rows_are_used_again() -> None:
    lives = [life("c0", 0, 5), life("c1", 0, 9), life("c2", 6, 9), life("c3", 10, None)]
    assert lanes(lives, end=12) == {"c0": 0, "c1": 1, "c2": 0, "c3": 0}


def told(*texts: str) -> TrialHistory:
    history = TrialHistory("coevolve", 0, best=f"c{len(texts) - 1}")
    for index, text in enumerate(texts):
        parents = (f"c{index - 1}",) if index else ()
        history.lives[f"c{index}"] = life(f"c{index}", index, None, *parents, text=text)
    return history


def test_the_story_begins_with_the_seed_and_tells_each_change() -> None:
    lines = story(told("Search. Answer.", "Search. Search twice.", "Search twice."))
    assert [(line.label[:2], line.text, line.kept) for line in lines] == [
        ("c0", "Search. Answer.", True),
        ("c1", "+ Search twice.", True),
        ("", "- Answer.", False),
        ("c2", "- Search.", False),
    ]


def test_long_sentences_are_wrapped_under_one_label() -> None:
    lines = story(told("word " * 40), width=60)
    assert [line.label for line in lines] == ["c0  step 0", "", "", ""]
    assert all(len(line.text) <= 60 for line in lines)


def test_a_long_story_leaves_out_the_middle() -> None:
    texts = [" ".join(f"S{n}." for n in range(index + 1)) for index in range(40)]
    lines = story(told(*texts), most=10)
    assert len(lines) == 10
    assert lines[0].text == "S0."
    assert lines[-1].text == "+ S39."


def test_a_child_that_only_reorders_is_said_to() -> None:
    assert story(told("A. B.", "B. A."))[-1].text == "the same sentences in another order"
