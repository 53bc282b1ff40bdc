"""Instructions must reach the policy, and questions too long for one must not end a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from contract_runs import EVOLVING, STATIC, Job
from cpu_support.world import write_rows
from local_rollouts import LocalManager
from local_verl import run

import evoprompt
from evoprompt.support.errors import AttachError, InputError

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.filterwarnings("error:::evoprompt_verl.settings"),
]


@pytest.mark.parametrize("broken", ["all", "some"])
def test_agent_loops_that_leave_the_instruction_out_are_found_after_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    render = LocalManager.rendered

    def question_alone(self: LocalManager, messages: Any) -> list[int]:
        keep = broken == "some" and messages[-1]["content"].endswith("is 0")
        return render(self, messages if keep else messages[-1:])

    monkeypatch.setattr(LocalManager, "rendered", question_alone)
    if broken == "all":
        with pytest.raises(InputError, match="no prompt of the first step held an instruction"):
            run(Job(EVOLVING, steps=3), tmp_path)
        return
    with pytest.warns(UserWarning, match="2 of 3 prompts of the first step do not hold"):
        run(Job(EVOLVING, steps=1), tmp_path)


def test_prompts_that_never_pass_the_engine_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evoprompt_verl.attachment import VerlAttachment

    def past_the_engine(self: Any, prompts: Any) -> None:
        self._generate_originally(prompts)

    monkeypatch.setattr(VerlAttachment, "_generate", past_the_engine)
    with pytest.raises(AttachError, match="without an instruction of this engine"):
        run(Job(EVOLVING, steps=3), tmp_path)


def long_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[int]) -> None:
    """Validation questions of as many words, each word a token or more."""
    import local_verl

    write = local_verl.write_world

    def with_long(directory: Path, *others: Any) -> None:
        write(directory, *others)
        rows = [
            {"id": f"v{n}", "prompt": [{"role": "user", "content": "x" * count}]}
            for n, count in enumerate(words)
        ]
        write_rows(directory / "validation.parquet", rows)

    monkeypatch.setattr(local_verl, "write_world", with_long)


def test_a_validation_question_without_room_is_left_out_with_a_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_questions(tmp_path, monkeypatch, [10, 240])
    with pytest.warns(UserWarning, match="1 of 2 validation questions leave no room"):
        found = run(Job(STATIC, steps=2, evaluate_every=1), tmp_path)
    assert found is not None
    assert len(found.evaluated) == 2
    notices = [event["message"] for event in found.events if event["event"] == "notice"]
    assert any("1 validation questions were left out" in one for one in notices)


def test_no_validation_question_with_room_is_refused_before_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_questions(tmp_path, monkeypatch, [240, 241])
    with pytest.raises(InputError, match="2 of 2 validation questions leave no room"):
        run(Job(STATIC, steps=2, evaluate_every=1), tmp_path)
    run(Job(STATIC, steps=1), tmp_path)


@pytest.mark.parametrize("column", [{}, {"question": "who asks"}])
def test_screening_knows_the_questions_of_the_dataset_as_they_are_seen(
    column: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import local_verl

    write, attach = local_verl.write_world, evoprompt.attach
    engines: list[evoprompt.Engine] = []

    def with_column(directory: Path, *others: Any) -> None:
        write(directory, *others)
        asked = [{"role": "user", "content": "what is it"}]
        rows = [{"id": f"q{n}", "prompt": asked, **column} for n in range(60)]
        write_rows(directory / "train.parquet", rows)

    def attached(trainer: object, engine: evoprompt.Engine) -> object:
        engines.append(engine)
        return attach(trainer, engine)

    monkeypatch.setattr(local_verl, "write_world", with_column)
    monkeypatch.setattr(evoprompt, "attach", attached)
    run(Job(STATIC, steps=1), tmp_path)
    (engine,) = engines
    seen = {record.question.text for record in engine.replay.records}
    assert seen == set(engine.screening.trainset) == {column.get("question", "what is it")}
