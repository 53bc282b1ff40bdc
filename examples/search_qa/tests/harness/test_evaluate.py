from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from evoprompt_search_qa.harness.evaluate import (
    PATIENCE,
    Contestant,
    Evaluation,
    Settings,
    StoppedError,
)
from evoprompt_search_qa.harness.identity import Identity
from evoprompt_search_qa.harness.journal import Entry
from evoprompt_search_qa.harness.sources import DataSet
from evoprompt_search_qa.methods.english import ENGLISH
from evoprompt_search_qa.policies.base import Policy

from evoprompt.agents import Action, Broken, Episode, Sampling, TextTokenizer
from evoprompt.errors import InputError
from evoprompt.types import Question


def data_set(name: str = "s", count: int = 10) -> DataSet:
    return DataSet(name, [Question(str(n), f"number {n}", (str(n),)) for n in range(count)])


class Knows:
    """Is right about even numbers and counts what it was asked; some questions may fail."""

    tokenizer = TextTokenizer()

    def __init__(self, fails: Sequence[int] = (), dies_at: int | None = None) -> None:
        self.asked: list[str] = []
        self._fails = fails
        self._dies_at = dies_at

    def __call__(
        self, episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool
    ) -> list[Action | Broken]:
        if self._dies_at is not None and len(self.asked) >= self._dies_at:
            raise KeyboardInterrupt
        return [self._reply(episode) for episode in episodes]

    def _reply(self, episode: Episode) -> Action | Broken:
        found = re.search(r"number (\d+)", self.tokenizer.decode(episode.prompt_ids, False))
        assert found is not None
        self.asked.append(found.group())
        number = int(found.group(1))
        if number in self._fails:
            return Broken(f"no answer for {number}")
        text = f"<answer>{number if number % 2 == 0 else 'odd'}</answer>"
        return Action(self.tokenizer.encode(text, add_special_tokens=False))


def settings(**changes: str) -> Settings:
    instructions = {name: ENGLISH.instructions[name] for name in ("direct", "rag")}
    return Settings(policy="knows", retriever=None, instructions=instructions).model_copy(
        update=changes
    )


def ask(
    folder: Path,
    policy: Knows,
    methods: Sequence[str] = ("direct",),
    sets: Sequence[DataSet] | None = None,
) -> list[Entry]:
    evaluation = Evaluation(folder, settings())
    added: list[Entry] = []
    asked = Policy("knows", policy.tokenizer, lambda: policy)
    contestant = Contestant(
        asked, ENGLISH, lambda data: lambda queries: [("passage",) for _ in queries]
    )
    evaluation.run(
        methods, sets or [data_set()], contestant, 3, lambda m, s, entries: added.extend(entries)
    )
    return added


def test_every_question_of_every_set_is_asked_once_by_every_method(tmp_path: Path) -> None:
    sets = [data_set("s"), data_set("t", 4)]
    policy = Knows()
    added = ask(tmp_path, policy, ("direct", "rag"), sets)
    assert len(added) == len(policy.asked) == 28
    table = Evaluation(tmp_path, settings()).table(("direct", "rag"), sets, "exact_match", None)
    assert table.columns == ("s", "t", "average")
    assert [row.name for row in table.rows] == ["Direct", "RAG"]
    assert [cell.value for cell in table.rows[0].cells] == [0.5, 0.5, 0.5]
    assert [cell.scored for cell in table.rows[0].cells] == [10, 4, 14]


def test_a_killed_evaluation_continues_without_repeating_or_losing_a_question(
    tmp_path: Path,
) -> None:
    killed = Knows(dies_at=6)
    with pytest.raises(KeyboardInterrupt):
        ask(tmp_path, killed)
    journal = Evaluation(tmp_path, settings()).journal("direct", "s")
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole[:-7])  # the kill tore the sixth line
    assert Evaluation(tmp_path, settings()).remaining(["direct"], [data_set()]) == 5
    second = Knows()
    ask(tmp_path, second)
    assert second.asked == [f"number {n}" for n in range(5, 10)]
    assert sorted(journal.read()) == [str(n) for n in range(10)]
    assert len(journal.path.read_bytes().splitlines()) == 10


def test_unscored_questions_are_counted_as_such_and_asked_again(tmp_path: Path) -> None:
    sets = [data_set(count=40)]
    ask(tmp_path, Knows(fails=(0, 1)), sets=sets)
    evaluation = Evaluation(tmp_path, settings())
    (cell, _) = evaluation.table(["direct"], sets, "exact_match", None).rows[0].cells
    assert (cell.scored, cell.unscored, cell.value) == (38, 2, 0.5)
    again = Knows()
    ask(tmp_path, again, sets=sets)
    assert again.asked == ["number 0", "number 1"]
    (cell, _) = evaluation.table(["direct"], sets, "exact_match", None).rows[0].cells
    assert (cell.scored, cell.unscored) == (40, 0)


def test_a_cell_with_too_many_unscored_questions_is_not_published(tmp_path: Path) -> None:
    sets = [data_set("s", 40), data_set("t", 40)]
    ask(tmp_path, Knows(), ("direct",), sets)
    ask(tmp_path, Knows(fails=(0, 10, 20)), ("rag",), sets)
    evaluation = Evaluation(tmp_path, settings())
    table = evaluation.table(["direct", "rag"], sets, "exact_match", ("direct", "rag"))
    assert [cell.value for cell in table.rows[0].cells] == [0.5, 0.5, 0.5]
    assert [cell.value for cell in table.rows[1].cells] == [None, None, None]
    assert table.notes == (
        "Direct minus RAG: no test, too many questions are unscored.",
        "A cell has no value where more than 5% of the questions are unscored: those that are "
        "left are no fair sample.",
    )


def test_what_was_never_asked_is_unscored_too(tmp_path: Path) -> None:
    ask(tmp_path, Knows(), sets=[data_set(count=10)])
    table = Evaluation(tmp_path, settings()).table(["direct"], [data_set(count=40)], "f1", None)
    assert (table.rows[0].cells[0].value, table.rows[0].cells[0].unscored) == (None, 30)


def test_a_set_without_a_score_leaves_no_average(tmp_path: Path) -> None:
    sets = [data_set("s", 3), data_set("t", 2)]
    ask(tmp_path, Knows(fails=(0, 1)), sets=sets)
    cells = Evaluation(tmp_path, settings()).table(["direct"], sets, "f1", None).rows[0].cells
    assert [cell.value for cell in cells] == [None, None, None]
    assert [cell.unscored for cell in cells] == [2, 2, 4]


def test_it_stops_when_nobody_answers_and_keeps_what_was_answered(tmp_path: Path) -> None:
    policy = Knows(fails=range(5, 1000))
    with pytest.raises(StoppedError, match=r"no answer for .*run the same command again"):
        ask(tmp_path, policy, sets=[data_set(count=200)])
    assert len(policy.asked) < 5 + PATIENCE + 3
    entries = Evaluation(tmp_path, settings()).journal("direct", "s").read()
    assert sum(not entry.error for entry in entries.values()) == 5


def test_it_stops_when_half_of_the_questions_fail_though_never_many_in_a_row(
    tmp_path: Path,
) -> None:
    policy = Knows(fails=range(0, 1000, 2))
    with pytest.raises(StoppedError, match="20 of the last 39 questions could not be answered"):
        ask(tmp_path, policy, sets=[data_set(count=200)])
    assert len(policy.asked) < 45


def test_two_methods_are_compared_on_the_questions_both_answered(tmp_path: Path) -> None:
    sets = [data_set(count=20)]
    ask(tmp_path, Knows(), ("direct",), sets)
    ask(tmp_path, Knows(fails=(3,)), ("rag",), sets)
    evaluation = Evaluation(tmp_path, settings())
    table = evaluation.table(["direct", "rag"], sets, "exact_match", ("direct", "rag"))
    assert table.notes == (
        "Direct minus RAG: +0.0 points [+0.0, +0.0], p = 1.0000 (paired permutation test, "
        "19 questions).",
    )


def test_a_folder_is_taken_only_when_asking_begins(tmp_path: Path) -> None:
    Evaluation(tmp_path / "out", settings(policy="mistyped"))
    assert not (tmp_path / "out").exists()
    ask(tmp_path / "out", Knows())
    with pytest.raises(InputError, match="begun with the policy 'knows'"):
        Evaluation(tmp_path / "out", settings(policy="mistyped"))


def test_other_settings_need_another_folder(tmp_path: Path) -> None:
    Evaluation(tmp_path, settings()).begin()
    with pytest.raises(InputError, match="begun with the policy 'knows', but it is 'other' now"):
        Evaluation(tmp_path, settings(policy="other"))
    changed = settings().model_copy(update={"instructions": {"rag": "Be brief."}})
    with pytest.raises(InputError, match="begun with the instruction of rag"):
        Evaluation(tmp_path, changed)


PINNED = Identity(
    model_revision="w1",
    corpus="bm25 over wiki, f1",
    questions={"nq": "q1"},
    limits={"passages": 3},
    prompt_format="USER: QUESTION",
)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_revision": "w2"}, "model revision 'w1', but it is 'w2' now"),
        ({"corpus": "bm25 over wiki, f2"}, "corpus"),
        ({"questions": {"nq": "q2"}}, "questions of nq"),
        ({"limits": {"passages": 5}}, "limit of passages"),
        ({"prompt_format": "QUESTION"}, "prompt format"),
    ],
)
def test_what_is_asked_must_really_be_the_same(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    def pinned(identity: Identity) -> Settings:
        return settings().model_copy(update={"identity": identity})

    Evaluation(tmp_path, pinned(PINNED)).begin()
    with pytest.raises(InputError, match=f"begun with the {said}"):
        Evaluation(tmp_path, pinned(PINNED.model_copy(update=change)))
    unknown = PINNED.model_copy(
        update={"model_revision": "", "corpus": "", "questions": {"popqa": "q3"}}
    )
    Evaluation(tmp_path, pinned(unknown)).begin()
    with pytest.raises(InputError, match=f"begun with the {said}"):
        Evaluation(tmp_path, pinned(PINNED.model_copy(update=change)))


def test_an_evaluation_from_before_the_identity_is_continued_and_pinned(tmp_path: Path) -> None:
    Evaluation(tmp_path, settings()).begin()
    (tmp_path / "evaluation.json").write_text(settings().model_dump_json(exclude={"identity"}))
    Evaluation(tmp_path, settings().model_copy(update={"identity": PINNED})).begin()
    other = settings().model_copy(update={"identity": PINNED.model_copy(update={"corpus": "x"})})
    with pytest.raises(InputError, match="begun with the corpus 'bm25 over wiki, f1'"):
        Evaluation(tmp_path, other)


def test_methods_may_be_added(tmp_path: Path) -> None:
    only = settings().model_copy(update={"instructions": {"cot": "Think."}})
    Evaluation(tmp_path, settings()).begin()
    Evaluation(tmp_path, only).begin()
    with pytest.raises(InputError, match="instruction of cot"):
        Evaluation(tmp_path, only.model_copy(update={"instructions": {"cot": "Do not."}}))


def test_other_data_under_the_same_name_is_refused(tmp_path: Path) -> None:
    ask(tmp_path, Knows())
    other = DataSet("s", [Question("3", "another question", ("3",))])
    with pytest.raises(InputError, match="holds the question '3' with another text"):
        ask(tmp_path, Knows(), sets=[other])


def test_a_folder_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("dear")
    with pytest.raises(InputError, match="holds something else"):
        Evaluation(tmp_path, settings())
