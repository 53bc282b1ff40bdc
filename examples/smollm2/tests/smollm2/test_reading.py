from __future__ import annotations

import json
from pathlib import Path

import pytest
from evoprompt_retrieval.passages import Passage
from evoprompt_smollm2.prepare import CORPUS, SETS, Preparation, cut, prepare
from evoprompt_smollm2.reading import Reading, ReadingSettings

from evoprompt.agents import Episode
from evoprompt.errors import InputError
from evoprompt.experiments.testing import TaskSuite
from evoprompt.types import Assignment, Candidate, Trajectory, Turn

RIVERS = ("Danube", "Rhine", "Elbe", "Oder", "Main", "Isar", "Inn", "Lech")
TOWNS = ("Ulm", "Bonn", "Riesa", "Breslau", "Wertheim", "Munich", "Passau", "Landsberg")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Towns on rivers, each question in one of the files, and one that nothing answers."""
    folder = tmp_path / "source"
    folder.mkdir()
    passages = [
        {"id": str(at), "title": town, "text": f"{town} is a town. {town} lies on the {river}."}
        for at, (town, river) in enumerate(zip(TOWNS, RIVERS, strict=True))
    ]
    (folder / CORPUS).write_text("\n".join(map(json.dumps, passages)))
    for place, name in enumerate(SETS):
        rows = [
            {
                "id": f"q{at}",
                "question": f"On which river lies {TOWNS[at]}?",
                "golden_answers": [RIVERS[at]],
            }
            for at in range(place, len(TOWNS), len(SETS))
        ]
        if not place:
            rows.append({"id": "no", "question": "Who founded Ulm?", "golden_answers": ["Nobody"]})
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


@pytest.fixture
def task(source: Path, tmp_path: Path) -> Reading:
    prepare(Preparation(source, train=4, validation=2, test=2), tmp_path / "prepared")
    return Reading(ReadingSettings(questions=tmp_path / "prepared"))


class TestReading(TaskSuite):
    @pytest.fixture(autouse=True)
    def made(self, task: Reading) -> None:
        self.task = task

    def build(self) -> Reading:
        return Reading(self.task.settings)


class TestPrepare:
    def test_every_question_comes_with_pieces_that_hold_its_answer(self, task: Reading) -> None:
        asked = [one for split in ("train", "validation", "test") for one in task.questions(split)]
        assert len({one.text for one in asked}) == 8
        for one in asked:
            pieces, _, question = one.text.partition("\n\nQuestion: ")
            assert one.answers[0] in pieces
            assert question.startswith("On which river lies ")
        assert {one.row["source"] for one in asked} == {"popqa", "nq", "triviaqa"}

    def test_what_nothing_answers_is_counted_and_left_out(
        self, source: Path, tmp_path: Path
    ) -> None:
        found = prepare(Preparation(source, train=1, validation=1, test=1), tmp_path / "out")
        assert (found["asked"], found["readable"]) == (9, 8)

    def test_the_test_questions_do_not_depend_on_how_many_train(
        self, source: Path, tmp_path: Path
    ) -> None:
        for train in (1, 4):
            prepare(Preparation(source, train, validation=1, test=2), tmp_path / str(train))
        assert (tmp_path / "1/test.jsonl").read_text() == (tmp_path / "4/test.jsonl").read_text()

    def test_too_few_are_said(self, source: Path, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"8 of 9 questions .*; required: 660"):
            prepare(Preparation(source), tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_a_missing_file_is_named(self, source: Path, tmp_path: Path) -> None:
        (source / "nq_test.jsonl").unlink()
        with pytest.raises(InputError, match=r"nq_test.jsonl cannot be read .*--source"):
            prepare(Preparation(source), tmp_path / "out")

    def test_a_row_that_is_no_question_is_named(self, source: Path, tmp_path: Path) -> None:
        (source / "nq_test.jsonl").write_text('{"id": "1"}\n')
        with pytest.raises(InputError, match=r"nq_test.jsonl:1 asks nothing"):
            prepare(Preparation(source), tmp_path / "out")

    def test_pieces_are_whole_sentences(self) -> None:
        text = "One two three. Four five. Six seven eight nine ten eleven. Twelve."
        pieces = [piece.text for piece in cut(Passage("0", "t", text), words=5)]
        assert pieces == [
            "One two three. Four five.",
            "Six seven eight nine ten eleven.",
            "Twelve.",
        ]


@pytest.mark.parametrize(
    ("said", "reward", "exact", "contained", "diagnoses"),
    [
        ("The Danube.", 1.0, 1.0, 1.0, []),
        ("It lies on the Danube", 0.4, 0.0, 1.0, ["partly"]),
        ("Ulm is a town that lies on the Danube", 0.25, 0.0, 1.0, ["wordy"]),
        ("Rhine", 0.0, 0.0, 0.0, ["wrong", "partly"]),
        (None, 0.0, 0.0, 0.0, ["wrong", "partly"]),
    ],
)
def test_answers_are_scored_and_failures_diagnosed(
    task: Reading,
    said: str | None,
    reward: float,
    exact: float,
    contained: float,
    diagnoses: list[str],
) -> None:
    asked = next(
        one
        for split in ("train", "validation", "test")
        for one in task.questions(split)
        if one.answers == ("Danube",)
    )
    score = task.score(Episode([], answer=said, end="answered"), asked)
    assert score.reward == pytest.approx(reward)
    assert (score.metrics["exact"], score.metrics["contained"]) == (exact, contained)
    assert bool(score.feedback) == (reward < 1)
    given = Assignment("a", asked, Candidate.of("Be brief."), 1, "g")
    failed = Trajectory(given, reward, turns=(Turn(said or ""),))
    assert [name for name in task.diagnose(failed) if reward < 1] == diagnoses


def test_without_prepared_questions_the_remedy_is_told(tmp_path: Path) -> None:
    task = Reading(ReadingSettings(questions=tmp_path / "none"))
    (need,) = task.needs()
    assert need.missing
    assert need.remedy.startswith("evoprompt reading prepare --output")
    with pytest.raises(InputError, match=r"cannot be read .*evoprompt reading prepare"):
        task.questions("train")
