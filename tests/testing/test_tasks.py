"""The suite of tasks passes what is right and names what is wrong."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from failing_checks import failing

from evoprompt.agents import Episode
from evoprompt.agents.tasks import Headline, Score
from evoprompt.bank import SentenceBank
from evoprompt.testing import (
    SampleTask,
    TaskSuite,
)
from evoprompt.types import (
    Question,
    Trajectory,
)


class TestTasks:
    def test_the_sample_task_passes(self) -> None:
        assert failing(TaskSuite, SampleTask) == set()

    def test_one_without_a_seed(self) -> None:
        class Seedless(SampleTask):
            seed_instructions = ()

        assert failing(TaskSuite, Seedless) == {"starts from at least one instruction"}

    @pytest.mark.parametrize("label", ["", "exact\nmatch"])
    def test_one_whose_number_has_no_label(self, label: str) -> None:
        class Nameless(SampleTask):
            headline = Headline("accuracy", label)

        assert failing(TaskSuite, Nameless) == {"names the number it is compared by"}

    def test_one_whose_seed_lacks_a_tag(self) -> None:
        class Tagless(SampleTask):
            seed_instructions = ("Be brief.",)

        assert failing(TaskSuite, Tagless) == {
            "starts from instructions that hold what is required"
        }

    @pytest.mark.parametrize(
        "bank",
        [
            SentenceBank({"haste": ()}, fixed=SampleTask.required),
            SentenceBank(
                {"haste": ("Be quick.",)}, {"slow": ("speed",)}, fixed=SampleTask.required
            ),
            SentenceBank({"haste": ("Be quick.",)}),
        ],
        ids=["an idea without wordings", "an unknown remedy", "no sentence with the tags"],
    )
    def test_one_whose_bank_does_not_fit_together(self, bank: SentenceBank) -> None:
        found = failing(TaskSuite, type("Loose", (SampleTask,), {"bank": bank}))
        assert found == {"has a bank that fits together"}

    def test_one_that_diagnoses_only_long_trajectories(self) -> None:
        class Fragile(SampleTask):
            def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
                return [trajectory.turns[0].action]

        assert failing(TaskSuite, Fragile) == {"diagnoses any trajectory"}

    def test_one_without_a_question_in_a_split(self) -> None:
        class Untested(SampleTask):
            def questions(self, split: str) -> Sequence[Question]:
                return [] if split == "test" else super().questions(split)

        found = failing(TaskSuite, Untested)
        assert found == {"has questions in every split and the same ones again"}

    def test_one_that_scores_without_its_headline(self) -> None:
        class Nameless(SampleTask):
            def score(self, episode: Episode, question: Question) -> Score:
                return Score(1.0)

        assert failing(TaskSuite, Nameless) == {"scores an episode that says nothing"}
