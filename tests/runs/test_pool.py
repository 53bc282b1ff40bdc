"""What a task can use of another run's pool, and what is said of the rest."""

from __future__ import annotations

import pytest

from evoprompt.errors import InputError
from evoprompt.experiments.pool import fit
from evoprompt.experiments.sections import PoolSeed
from evoprompt.testing.fakes import SampleTask

SUM = "Write <answer>the sum</answer>."
TASK = SampleTask()


def seed(name: str, text: str, weight: float | None = None) -> PoolSeed:
    return PoolSeed(origin=f"coevolve/0 {name}", components={"instruction": text}, weight=weight)


def test_every_instruction_that_fits_becomes_a_seed_and_says_where_it_comes_from() -> None:
    pool = (seed("c9", f"Check it. {SUM}", 0.875), seed("c0", SUM))
    found = fit(pool, "runs/a", TASK, 7)
    assert [proposal.text for proposal in found.seeds] == [f"Check it. {SUM}", SUM]
    assert [proposal.rationale for proposal in found.seeds] == [
        "runs/a: coevolve/0 c9, weight 0.88",
        "runs/a: coevolve/0 c0",
    ]
    assert found.notices == ()
    fewer = fit(pool, "runs/a", TASK, 1)
    assert fewer.seeds == found.seeds[:1]
    assert "1 of 2 instructions, those of the lowest weight" in fewer.notices[0]


def test_each_refusal_is_told_with_its_reason_and_the_others_go_in() -> None:
    pool = (
        seed("c1", "Search first, then answer."),
        seed("c2", f"As a language model I cannot help you. {SUM}"),
        seed("c3", f"Split large numbers. {SUM}"),
        seed("c4", f"Split   large numbers. {SUM}"),
        seed("c5", f"Fill in {{question}}. {SUM}"),
    )
    found = fit(pool, "runs/a", TASK, 7)
    assert [proposal.text for proposal in found.seeds] == [f"Split large numbers. {SUM}"]
    lost, refusal, twice, slot = found.notices
    assert lost == (
        "not taken over from runs/a: coevolve/0 c1 (protocol: lost tag <answer>, </answer>)"
    )
    assert "c2 (meta_talk:" in refusal
    assert "c4 (duplicate:" in twice
    assert "c5 (protocol:" in slot


def test_what_the_task_s_own_seed_does_is_no_offence() -> None:
    class WithSlot(SampleTask):
        seed_instructions = (f"Fill in {{question}}. {SUM}",)

    found = fit((seed("c5", f"Fill in {{question}}, twice. {SUM}"),), "runs/a", WithSlot(), 7)
    assert found.notices == ()


def test_what_consists_of_other_components_is_told() -> None:
    def add(a: int, b: int) -> int:
        """The sum."""
        return a + b

    class Described(SampleTask):
        tools = (add,)
        evolving_tools = ("add",)

    whole = PoolSeed(origin="c1", components={"instruction": SUM, "tool:add": "Adds two numbers."})
    found = fit((whole, seed("c2", f"Check it. {SUM}")), "runs/a", Described(), 7)
    assert [dict(one.components) for one in found.seeds] == [whole.components]
    (told,) = found.notices
    assert "c2 (components: has the components ['instruction']; required: ['instruction'," in told


def test_a_pool_of_another_tool_is_refused_whole_in_one_error() -> None:
    pool = tuple(seed(f"c{n}", f"Search {n} times.") for n in range(12))
    with pytest.raises(InputError) as refused:
        fit(pool, "runs/a", TASK, 7)
    text = str(refused.value)
    assert text.startswith("this task can use none of the 12 instructions of runs/a: coevolve/0 c0")
    assert "that hold <answer>, </answer>; choose another run" in text
    assert "coevolve/0 c7 (" in text
    assert "coevolve/0 c8 (" not in text
