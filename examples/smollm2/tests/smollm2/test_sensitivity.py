from __future__ import annotations

import json
from pathlib import Path

import pytest
from bytewise import tiny_model
from evoprompt_smollm2.commands import model
from evoprompt_smollm2.reading import Reading, ReadingSettings
from evoprompt_smollm2.sensitivity import Measurement, measure, read, table
from typer.testing import CliRunner

from evoprompt.errors import InputError

WHAT = Measurement(["Be brief.", "Be kind."], questions=2, samples=2)


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    """Two questions in every split, with answers of at most two tokens."""
    for split in ("train", "validation", "test"):
        rows = [
            {
                "id": f"{split}{at}",
                "source": "nq",
                "question": "Who?",
                "pieces": [],
                "answers": ["A"],
            }
            for at in range(2)
        ]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return Reading(ReadingSettings(questions=tmp_path, turn_tokens=2))


def test_every_instruction_is_measured_and_none_twice(tmp_path: Path, reading: Reading) -> None:
    folder = tiny_model(tmp_path / "model")
    task, output, new = reading, tmp_path / "out" / "rows.jsonl", list[str]()
    rows = measure(task, folder, "float32", WHAT, output, lambda row: new.append(row["mode"]))
    assert [(row["instruction"], row["mode"]) for row in rows] == [
        ("Be brief.", "greedy"),
        ("Be brief.", "sampled at 1"),
        ("Be kind.", "greedy"),
        ("Be kind.", "sampled at 1"),
    ]
    asked = [question.id for question in task.questions("validation")]
    assert [one["question"] for one in rows[0]["episodes"]] == asked
    assert [one["question"] for one in rows[1]["episodes"]] == [one for one in asked for _ in "ab"]
    assert len(new) == 4

    # A kill in the midst of a line: what is whole stays, and only the rest is measured again.
    text = output.read_text()
    output.write_text(text[: text.rindex('"question"')])
    again = measure(task, folder, "float32", WHAT, output, lambda row: new.append(row["mode"]))
    assert len(new) == 5
    assert [row["episodes"] for row in again] == [row["episodes"] for row in rows]
    assert len(list(read(output))) == 4


def test_the_table_has_means_errors_and_the_share_of_questions_that_differ() -> None:
    def episode(question: str, reward: float) -> dict[str, object]:
        return {"question": question, "reward": reward, "metrics": {"words": 2.0}, "said": []}

    episodes = [episode("a", 0), episode("a", 1), episode("b", 1), episode("b", 1)]
    row = {"instruction": "x|y", "mode": "sampled", "seconds": 3.0, "episodes": episodes}
    shown = table([row]).splitlines()
    assert shown[0] == "| instruction | mode | reward | ± s.e. | spread | words | CPU-s |"
    assert shown[2] == r"| x\|y | sampled | 0.750 | 0.250 | 0.50 | 2.00 | 3 |"
    with pytest.raises(InputError, match="nothing was measured"):
        table([])


def test_the_command_asks_a_model_that_is_not_trained(tmp_path: Path, reading: Reading) -> None:
    config, texts = tmp_path / "run.yaml", tmp_path / "instructions.txt"
    settings = {
        "task": {"name": "reading", "questions": str(reading.settings.questions), "turn_tokens": 2},
        "host": {"name": "trl", "model": str(tiny_model(tmp_path / "model"))},
        "budget": 1,
        "evaluate_every": 1,
    }
    config.write_text(json.dumps(settings))
    texts.write_text("Be brief.\n\nBe kind.\n")
    done = CliRunner().invoke(
        model,
        [
            *("sensitivity", str(config), "--instructions", str(texts)),
            *("--output", str(tmp_path / "rows.jsonl"), "--samples", "0"),
        ],
        catch_exceptions=False,
    )
    assert done.exit_code == 0
    assert [line.split(" | ")[0] for line in done.stdout.splitlines()][2:] == [
        "| Be brief.",
        "| Be kind.",
    ]
