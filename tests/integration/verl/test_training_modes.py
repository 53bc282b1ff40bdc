"""veRL's modes, ranks and nodes on a CPU, with a real veRL.

Every front door is used by one of the trainings: veRL's own command line, ``evoprompt-verl``, and
``attach`` in a task runner of one's own.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

import pytest
from cpu_support.dumped import groups, instruction_of, of_kind
from cpu_support.launch import KEY, Training
from cpu_support.world import FIRST, LOOK_UP

from evoprompt.support.storage import STATE_FILE

# The first test waits for the trainings that are started before its own.
pytestmark = [pytest.mark.verl, pytest.mark.nightly, pytest.mark.timeout(3600)]

# ----------------------------------------------- a task runner of one's own, asynchronously


@pytest.fixture(scope="session")
def told(recorded: Training) -> list[dict[str, Any]]:
    return [
        {"step": step, **json.loads(line)}
        for step in (1, 2, 3, 4)
        for line in (recorded.directory / "told" / f"{step}.jsonl").read_text().splitlines()
    ]


def test_every_credited_reward_is_in_verls_own_dump(
    recorded: Training, told: list[dict[str, Any]]
) -> None:
    """Step by step, the groups with their question, instructions and rewards are the same."""
    assert list(recorded.dumped()) == [1, 2, 3, 4]
    for step, rows in recorded.dumped().items():
        dumped = Counter(
            (
                group[0]["input"].split("user\n", 1)[1].splitlines()[0],
                tuple(sorted((instruction_of(row), row["score"]) for row in group)),
            )
            for group in groups(rows).values()
        )
        by_group = defaultdict(list)
        for one in told:
            if one["step"] == step and one["reward"] is not None:
                by_group[one["group"]].append(one)
        credited = Counter(
            (
                group[0]["asked"],
                tuple(sorted((one["instruction"], one["reward"]) for one in group)),
            )
            for group in by_group.values()
        )
        assert dumped == credited
    rows = recorded.dumped()[4]
    assert max(len({instruction_of(row) for row in one}) for one in groups(rows).values()) > 1


def test_a_group_that_failed_is_told_without_a_reward(told: list[dict[str, Any]]) -> None:
    unscored = {name_of(one) for one in told if one["reward"] is None}
    assert unscored == {"colours/train/5"}
    assert all(one["reward"] is None for one in told if name_of(one) == "colours/train/5")


def name_of(rollout: dict[str, Any]) -> str:
    """Return the id of a question without the digest of its text."""
    question: str = rollout["question"]
    return question.rpartition("-")[0]


def test_what_the_reward_function_says_reaches_the_engine_with_the_rollouts_it_reads(
    told: list[dict[str, Any]],
) -> None:
    read = [one for one in told if one["said"]]
    failed = [one for one in read if one["metrics"]["reward/acc"] == 0.0]
    assert len(failed) > 10
    for one in failed:
        last_line = one["said"][-1].strip().rsplit("\n", 1)[-1].strip()
        assert one["feedback"] == f"expected blue, got {last_line}"
    assert not any(one["feedback"] for one in told if not one["said"])
    # Beside each failure one success, perhaps of another candidate on the same question; otherwise
    # one of each candidate.
    failures = Counter(one["step"] for one in failed)
    shown = Counter(one["step"] for one in read if one not in failed)
    candidates = Counter(step for step, _ in {(one["step"], one["candidate"]) for one in told})
    assert all(shown[step] <= failures[step] + candidates[step] for step in shown)


def test_late_results_are_credited_to_the_instruction_they_were_made_under(
    told: list[dict[str, Any]],
) -> None:
    assert {one["step"] for one in told} == {1, 2, 3, 4}
    assert len({one["instruction"] for one in told}) > 1


def test_what_was_out_at_a_checkpoint_keeps_its_instruction_when_the_run_resumes(
    recorded: Training, told: list[dict[str, Any]]
) -> None:
    """The next batch is asked before the checkpoint, and trained on after the kill."""
    state = json.loads((recorded.checkpoints / "global_step_2" / STATE_FILE).read_text())
    entries = [entry["assignment"] for entry in state["parts"]["assignments"]["entries"]]
    asked = {
        given["id"]: (given["question"]["id"], given["candidate"]["components"]["instruction"])
        for given in entries
    }
    out = {identity for ids in state["host"]["prompts"].values() for identity in ids}
    assert len(state["host"]["prompts"]) == 8
    assert out == set(asked)
    later = {one["assignment"]: one for one in told if one["step"] > 2}
    assert out <= set(later)
    assert {name: (later[name]["question"], later[name]["instruction"]) for name in out} == asked


# ----------------------------------------------------- several ranks, replicas and workers


def test_a_tool_is_called_over_http_and_its_answers_are_masked(searched: Training) -> None:
    queries = sum(len(one.body["queries"]) for one in searched.asked)
    told = of_kind(searched, "step_completed")
    calls = sum(round(event["metrics"]["tool_calls"] * event["trajectories"]) for event in told)
    assert queries >= calls > 0
    # A call and its end are two tokens, an answer and its end two more; observations are neither.
    assert all(event["metrics"]["response_tokens"] <= 6 for event in told)


def test_groups_hold_together_over_two_workers_and_two_replicas(searched: Training) -> None:
    for rows in searched.dumped().values():
        found = groups(rows)
        assert [len(group) for group in found.values()] == [4] * 8
        # A group's four rollouts are shared out among the two instructions.
        for group in found.values():
            assert Counter(map(instruction_of, group)) == {LOOK_UP: 2, FIRST: 2}


# ------------------------------------------------------------------ a cluster of several nodes


def test_on_a_cluster_the_task_runner_is_elsewhere_but_works_where_the_command_was_typed(
    clustered: Training,
) -> None:
    place = json.loads((clustered.directory / "place.json").read_text())
    assert place["directory"] == str(clustered.directory)
    assert place["cpus"] > 0  # the node of the command has none
    assert (clustered.checkpoints / "global_step_3" / STATE_FILE).exists()
    shards = (clustered.checkpoints / "global_step_3" / "actor").glob("model_world_size_2_rank_*")
    assert len(list(shards)) == 2


def test_on_a_cluster_the_key_reaches_the_task_runner_and_no_log(clustered: Training) -> None:
    assert {one.authorization for one in clustered.asked} == {f"Bearer {KEY}"}
    proposed = of_kind(clustered, "proposed")
    assert {event["proposer"] for event in proposed} == {"reflection"}
    assert any(event["admitted"] for event in of_kind(clustered, "verified"))
    assert KEY not in clustered.printed()
