"""A co-evolution under a real veRL, on a CPU, and the same killed and resumed.

Ray, FSDP, TransferQueue, agent loops and weight transfer are veRL's; only kernels and the rollout
backend are of this repository. ``test_training_modes.py`` has veRL's other modes.
"""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import Future
from typing import Any

import pytest
from cpu_support.dumped import groups, instruction_of, of_kind
from cpu_support.launch import Training, alive

from evoprompt.hosting.binding import FEW
from evoprompt.replay import ReplayBuffer
from evoprompt.support.storage import STATE_FILE

# The first test waits for the trainings that are started before its own.
pytestmark = [pytest.mark.verl, pytest.mark.timeout(3600)]

# --------------------------------------------------------------------------- co-evolution


def test_new_instructions_are_verified_and_the_best_are_used(evolved: Training) -> None:
    verified = [e for e in of_kind(evolved, "verified") if not e["parent"]]
    assert all(e["scored"] > 0 for e in verified)
    admitted = {e["candidate"] for e in verified if e["admitted"]}
    assert max(verified, key=lambda e: e["mean"])["candidate"] in admitted
    used = {
        candidate
        for event in of_kind(evolved, "questions_assigned")
        for candidate in event["draws"]
        if event["step"] > 2
    }
    assert admitted & used
    assert of_kind(evolved, "pruned")
    told = of_kind(evolved, "step_completed")
    assert [event["trajectories"] for event in told] == [32] * 4


def test_each_half_of_a_group_has_an_instruction_and_the_engine_chose_it(
    evolved: Training,
) -> None:
    draws = [event["draws"] for event in of_kind(evolved, "questions_assigned")]
    texts = {
        event["candidate"]: event["components"]["instruction"]
        for event in evolved.events()
        if event["event"] in ("seeded", "proposed") and event["candidate"]
    }
    mixed = 0
    for rows, drawn in zip(evolved.dumped().values(), draws, strict=True):
        used: list[str] = []
        for group in groups(rows).values():
            assert len(group) == 4
            ordered = sorted(group, key=lambda row: int(row["uid"].rsplit("_", 2)[1]))
            for half in (ordered[:2], ordered[2:]):
                (instruction,) = {instruction_of(row) for row in half}
                used.append(instruction)
            mixed += len(set(used[-2:])) > 1
        assert Counter(used) == Counter(
            {text: drawn.get(name, 0) for name, text in texts.items() if name in drawn}
        )
    assert mixed


def test_verls_own_loggers_show_the_population(evolved: Training) -> None:
    steps = evolved.metrics()
    assert max(step["evoprompt/population_size"] for step in steps) > 2
    spent = sum(event["rollouts"] for event in of_kind(evolved, "evolved"))
    assert steps[-1]["evoprompt/verification_rollouts"] == spent > 0
    ours = {name.split("/")[1] for step in steps for name in step if name.startswith("evoprompt/")}
    assert ours == set(FEW)
    assert all(step["training/global_step"] == n for n, step in enumerate(steps, start=1))


def test_verification_is_no_part_of_what_verl_trains_on(evolved: Training) -> None:
    assert [len(rows) for rows in evolved.dumped().values()] == [32] * 4
    assert all(step["critic/score/mean"] > 0 for step in evolved.metrics())


def test_validation_asks_under_the_best_instruction(evolved: Training) -> None:
    (evaluated,) = of_kind(evolved, "evaluated")
    assert evaluated["step"] == 4
    assert any("colours" in name for name in evaluated["metrics"])
    assert evaluated["candidate"] == of_kind(evolved, "incumbent_changed")[-1]["candidate"]


def test_the_state_lies_in_verls_own_checkpoints(evolved: Training) -> None:
    saved = sorted(path.parent.name for path in evolved.checkpoints.glob(f"*/{STATE_FILE}"))
    assert saved == ["global_step_2", "global_step_4"]


# ------------------------------------------------------------------------- kill and resume


@pytest.mark.exact
def test_a_killed_run_resumes_as_if_nothing_had_happened(
    evolved: Training, resumed: Training
) -> None:
    # Of which rollouts the text is read depends on which of a group's rollouts comes first, a race
    # between processes, in veRL as it is.
    assert _unread(resumed) == _unread(evolved)
    whole, again = _state(evolved), _state(resumed)
    for state in (whole, again):
        remembered = ReplayBuffer()
        remembered.load_state_dict(state["parts"]["replay"])
        assert any(one.feedback.startswith("expected blue, got ") for one in remembered)
    for state in (whole, again):
        del state["parts"]["replay"], state["checksum"]  # which the replay has a part in
    assert again == whole


def _unread(training: Training) -> list[dict[str, Any]]:
    """The events, without what was said and what was shown.

    The means of an evaluation but for rounding: veRL adds up in the order in which rollouts arrive.
    """
    events = [event for event in training.events() if event["event"] != "rollout_samples"]
    found = [{name: event[name] for name in event if name != "feedback"} for event in events]
    for event in found:
        if event["event"] == "evaluated":
            event["metrics"] = {name: round(n, 9) for name, n in event["metrics"].items()}
    return found


def _state(training: Training) -> Any:
    file = training.checkpoints / "global_step_4" / STATE_FILE
    return {**json.loads(file.read_text()), "host": None}  # uids are drawn anew


# ------------------------------------------------------------------------------ afterwards


def test_ray_leaves_no_process_behind(trainings: dict[str, Future[Training]]) -> None:
    for training in trainings.values():
        assert not alive(training.result().directory)
