from __future__ import annotations

import json
from pathlib import Path

import datasets
import pyarrow.parquet
import pytest
from evoprompt_search_qa.data.commands import app
from evoprompt_search_qa.data.prepare import Preparation, prepare
from evoprompt_search_qa.data.sets import SETS
from typer.testing import CliRunner

from evoprompt.hosting.rows import question_from_row
from evoprompt.support.errors import InputError


def questions(name: str, split: str, count: int = 6) -> str:
    rows = (
        {"id": f"{split}_{n}", "question": f"{name} {split} {n}?", "golden_answers": [f"{n}"]}
        for n in range(count)
    )
    return "".join(f"{json.dumps(row)}\n" for row in rows)


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """A folder with all sets, in the format of one file per set and split."""
    folder = tmp_path / "local"
    folder.mkdir()
    for name, found in SETS.items():
        for split in found.splits:
            (folder / f"{name}_{split}.jsonl").write_text(questions(name, split))
    return folder


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of the data set on the hub: one folder and one configuration a set."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "clone"
    card = ["---", "configs:"]
    for name, found in SETS.items():
        (folder / name).mkdir(parents=True)
        card += [f"- config_name: {name}", "  data_files:"]
        for split, official in found.splits.items():
            lines = questions(name, split).splitlines()
            rows = [{**json.loads(line), "metadata": {"kind": name}} for line in lines]
            text = "".join(f"{json.dumps(row)}\n" for row in rows)
            (folder / name / f"{official}.jsonl").write_text(text)
            card += [f"  - split: {official}", f"    path: {name}/{official}.jsonl"]
    (folder / "README.md").write_text("\n".join([*card, "---", ""]))
    return folder


def rows(path: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = pyarrow.parquet.read_table(path).to_pylist()
    return found


def test_both_kinds_of_source_give_the_same_rows(local: Path, clone: Path, tmp_path: Path) -> None:
    for source in (local, clone):
        prepare(Preparation(str(source), validation=3), tmp_path / f"{source.name}-out")
    for split, count in (("train", 9), ("validation", 3), ("test", 42)):
        name = f"{split}.parquet"
        found = rows(tmp_path / "local-out" / name)
        assert len(found) == count
        assert found == rows(tmp_path / "clone-out" / name)


def test_the_columns_are_those_of_search_r1_verl_and_trl(local: Path, tmp_path: Path) -> None:
    prepare(Preparation(str(local)), tmp_path / "out")
    found = rows(tmp_path / "out" / "test.parquet")[7]
    assert found == {
        "id": "triviaqa/test_1",
        "data_source": "triviaqa",
        "question": "triviaqa test 1?",
        "golden_answers": ["1"],
        "prompt": [{"role": "user", "content": "triviaqa test 1?"}],
        "ability": "fact-reasoning",
        "reward_model": {"style": "rule", "ground_truth": {"target": ["1"]}},
        "extra_info": {"split": "test", "index": 7},
    }
    question = question_from_row(found)
    assert (question.id, question.text, question.answers) == (
        "triviaqa/test_1",
        "triviaqa test 1?",
        ("1",),
    )


def test_the_mix_is_shuffled_by_its_seed_alone(local: Path, tmp_path: Path) -> None:
    orders = []
    for number, seed in enumerate((0, 0, 1)):
        prepare(Preparation(str(local), seed=seed), tmp_path / str(number))
        orders.append([row["id"] for row in rows(tmp_path / str(number) / "train.parquet")])
    assert orders[0] == orders[1] != orders[2]
    assert sorted(map(str, orders[0])) == sorted(map(str, orders[2]))
    assert {str(identity).partition("/")[0] for identity in orders[0][:6]} == {"nq", "hotpotqa"}


def test_training_questions_of_a_test_set_are_left_out_and_reported(
    local: Path, tmp_path: Path
) -> None:
    with (local / "nq_train.jsonl").open("a") as file:
        file.write('{"id": "x", "question": "MuSiQue test, 3", "golden_answers": ["other"]}\n')
        file.write('{"id": "y", "question": "the nq train 2", "golden_answers": ["2"]}\n')
    with (local / "popqa_test.jsonl").open("a") as file:
        file.write('{"id": "z", "question": "nq test 0", "golden_answers": ["0"]}\n')
    report = prepare(Preparation(str(local)), tmp_path / "out")
    for found, question, answers in (
        (report.overlap, "MuSiQue test, 3", "other answers"),
        (report.train_repeats, "the nq train 2", "the same answer"),
        (report.test_repeats, "nq test 0", "the same answer"),
    ):
        (only,) = found
        assert question in only
        assert only.endswith(answers)
    assert report.counts["popqa/test"] == 7
    assert report.counts["nq/train"] == 6
    text = json.loads((tmp_path / "out" / "report.json").read_text())
    first = text["repeats within the training mix (left out)"]["first"][0]
    assert first.startswith(f"{local / 'nq_train.jsonl'}:8: ")


def test_bad_rows_are_named_and_the_rest_is_kept(local: Path, tmp_path: Path) -> None:
    path = local / "nq_test.jsonl"
    with path.open("ab") as file:
        file.write(b"oops\n\n\xff\n" + b"[" * 100_000 + b"\n")
        file.write(b'{"id": "e", "question": "", "golden_answers": ["1"]}\n')
        file.write(b'{"id": "f", "question": "x", "golden_answers": []}\n')
        file.write(b'{"id": "test_0", "question": "new", "golden_answers": ["1"]}\n')
    report = prepare(Preparation(str(local)), tmp_path / "out")
    places = [message.split(": ")[0] for message in report.skipped]
    assert places == [f"{path}:{line}" for line in (7, 9, 10, 11, 12, 13)]
    assert report.counts["nq/test"] == 6


def test_bad_rows_of_the_hub_are_named_too(clone: Path, tmp_path: Path) -> None:
    with (clone / "nq" / "test.jsonl").open("a") as file:
        file.write('{"id": "e", "question": "", "golden_answers": ["1"], "metadata": null}\n')
    report = prepare(Preparation(str(clone)), tmp_path / "out")
    assert report.skipped == [f"{clone}/nq/test:7: asks nothing; required: a 'question'"]


def test_what_cannot_be_read_at_all_is_an_error(
    local: Path, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    out = tmp_path / "out"
    with pytest.raises(InputError, match="has no train questions of squad"):
        prepare(Preparation(str(local), train=["squad"]), out)
    with pytest.raises(InputError, match="check --source and the network"):
        prepare(Preparation("nobody/such-a-set"), out)
    (local / "musique_test.jsonl").unlink()
    with pytest.raises(InputError, match=r"no test questions of musique; required: musique_test"):
        prepare(Preparation(str(local)), out)
    (local / "musique_test.jsonl").write_text("oops\n")
    with pytest.raises(InputError, match=r"no usable test question of musique; .*:1: is not JSON"):
        prepare(Preparation(str(local)), out)
    card = clone / "README.md"
    card.write_text(card.read_text().replace("config_name: musique", "config_name: other"))
    with pytest.raises(InputError, match=r"the configuration 'musique', the split 'dev'"):
        prepare(Preparation(str(clone)), out)
    assert not out.exists()


def test_validation_must_leave_something_to_train_on(local: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--validation is 12, but there are 12"):
        prepare(Preparation(str(local), validation=12), tmp_path / "out")


def test_the_command_writes_and_reports(local: Path, tmp_path: Path) -> None:
    arguments = ["prepare", "--source", str(local), "--output", str(tmp_path / "out")]
    choice = ["--train", "musique", "--test", "nq", "--test", "popqa"]
    result = CliRunner().invoke(app, [*arguments, *choice])
    assert result.exit_code == 0, result.output
    assert "0 training questions that a test set asks, left out" in result.output
    assert {row["data_source"] for row in rows(tmp_path / "out" / "test.parquet")} == {
        "nq",
        "popqa",
    }
    assert {row["data_source"] for row in rows(tmp_path / "out" / "train.parquet")} == {"musique"}


def test_own_questions_have_any_name_and_need_no_ids(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for split in ("train", "test"):
        lines = [{"question": f"{split} {n}?", "golden_answers": str(n)} for n in range(3)]
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (folder / f"handbook_{split}.jsonl").write_text(text)
    arguments = ["prepare", "--source", str(folder), "--output", str(tmp_path / "out")]
    result = CliRunner().invoke(app, [*arguments, "--train", "handbook", "--test", "handbook"])
    assert result.exit_code == 0, result.output
    written = rows(tmp_path / "out" / "test.parquet")
    assert [row["id"] for row in written] == [f"handbook/row-{n}" for n in (1, 2, 3)]
    assert {row["data_source"] for row in written} == {"handbook"}


@pytest.mark.parametrize("name", ["", "../nq", "a/b"])
def test_the_name_of_a_set_is_part_of_a_file_name(local: Path, name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="letters, digits"):
        prepare(Preparation(str(local), train=(name,)), tmp_path / "out")
