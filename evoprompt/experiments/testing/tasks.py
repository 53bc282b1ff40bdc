"""Conformance suite of tasks."""

from __future__ import annotations

from evoprompt.agents import Episode
from evoprompt.agents.tasks import Evaluation, Task, require_questions, scored
from evoprompt.testing.samples import candidate, question, trajectory
from evoprompt.testing.suite import Suite, expect
from evoprompt.types import Trajectory


class TaskSuite(Suite[Task]):
    """Requirements of every task before anything is trained."""

    def test_names_the_number_it_is_compared_by(self) -> None:
        main_metric = self.build().main_metric
        expect(
            all(
                text.strip() and text.isprintable()
                for text in (main_metric.name, main_metric.label)
            ),
            f"the main metric {main_metric!r} lacks a name or a label of one printable line",
        )

    def test_starts_from_instructions_that_hold_what_is_required(self) -> None:
        task = self.build()
        seeds = task.seed_instructions
        expect(len(seeds) > 0, f"the seed instructions are {seeds!r}; required: at least one text")
        expect(len(set(seeds)) == len(seeds), "two seed instructions are alike")
        expect(not isinstance(task.required, str), "required is one text, not a sequence of texts")
        for seed in seeds:
            missing_texts = [text for text in task.required if text not in seed]
            expect(not missing_texts, f"the seed {seed!r} lacks {', '.join(missing_texts)}")

    def test_has_a_bank_that_fits_together(self) -> None:
        task = self.build()
        if task.bank is None:
            return
        for idea, wordings in task.bank.sentences.items():
            expect(
                not isinstance(wordings, str) and len(wordings) > 0,
                f"the idea {idea!r} has the wordings {wordings!r}; required: at least one text",
            )
        for diagnosis, ideas in task.bank.remedies.items():
            unknown = sorted(set(ideas) - set(task.bank.sentences))
            expect(not unknown, f"the remedies of {diagnosis!r} are not in the bank: {unknown}")
        fixed = " ".join(task.bank.fixed)
        missing_texts = [text for text in task.required if text not in fixed]
        expect(
            not missing_texts, f"the fixed sentences of the bank lack {', '.join(missing_texts)}"
        )

    def test_diagnoses_any_trajectory(self) -> None:
        task = self.build()
        usual = trajectory(candidate(0), question(1), 0.0)
        for description, sample_trajectory in {
            "a failure": usual,
            "a success": trajectory(candidate(0), question(1), 1.0),
            "one without a reward": trajectory(candidate(0), question(1), None),
            "one without turns": Trajectory(usual.assignment, 0.0),
        }.items():
            diagnosis = task.diagnose(sample_trajectory)
            expect(
                not isinstance(diagnosis, str) and all(isinstance(name, str) for name in diagnosis),
                f"the diagnosis of {description} is {diagnosis!r}; required: a sequence of names",
            )

    def test_has_questions_in_every_split_and_the_same_ones_again(self) -> None:
        first, second = self.build(), self.build()
        require_questions(first)
        for split in ("train", "validation", "test"):
            ids = [question.id for question in first.questions(split)]
            expect(
                ids == [question.id for question in second.questions(split)],
                f"two builds with the same settings differ in the questions of {split}",
            )

    def test_scores_an_episode_that_says_nothing(self) -> None:
        task = self.build()
        question = task.questions("validation")[0]
        score = scored(task, Episode([], end="malformed"), question)
        expect(score is not None, "it has no score")
        Evaluation.of([score] if score else [], task.main_metric)
