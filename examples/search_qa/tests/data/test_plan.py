from __future__ import annotations

from pathlib import Path

import pytest
from evoprompt_search_qa.data.commands import app
from evoprompt_search_qa.data.plan import plan_questions
from evoprompt_search_qa.data.prepare import Preparation
from typer.testing import CliRunner

from evoprompt.errors import InputError


def test_a_dry_preparation_reads_and_writes_nothing(tmp_path: Path) -> None:
    output = tmp_path / "out"
    command = ["prepare", "--output", str(output), "--source", "someone/questions", "--dry-run"]
    ended = CliRunner().invoke(app, command)
    assert ended.exit_code == 0, ended.output
    assert "to be fetched from the Hugging Face hub; not tried" in ended.output
    assert f"{output}/train.parquet" in ended.output.replace("\n", "")
    assert not output.exists()


def test_a_folder_says_which_files_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "nq_trainproxy.jsonl").touch()
    (tmp_path / "nq_test.jsonl").touch()
    what = Preparation(str(tmp_path), train=["nq"], test=["nq"])
    assert not plan_questions(what, tmp_path).needs[0].missing
    need = plan_questions(Preparation(str(tmp_path), test=["nq", "popqa"]), tmp_path).needs[0]
    assert need.missing
    assert need.text.endswith("lacks hotpotqa_train.jsonl, popqa_test.jsonl")


def test_a_clone_is_not_looked_into(tmp_path: Path) -> None:
    (tmp_path / "nq").mkdir()
    need = plan_questions(Preparation(str(tmp_path)), tmp_path / "out").needs[0]
    assert (need.missing, need.text) == (False, f"{tmp_path}, a clone of a data set")


def test_an_unknown_set_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'squad' is no set with a test split"):
        plan_questions(Preparation(test=["squad"]), tmp_path)
