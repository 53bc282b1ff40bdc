"""Conformance suites of hosts and launchers."""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from evoprompt.agents import Episode
from evoprompt.agents.tasks import Host, MainMetric, Score, Task, Trial
from evoprompt.experiments.launchers.base import Launcher
from evoprompt.support.errors import InputError
from evoprompt.testing import SampleTask, samples
from evoprompt.testing.suite import Suite, expect
from evoprompt.types import Question


class Additions(SampleTask, Task):
    """Sums without tools; the task has no policy to train."""

    main_metric = MainMetric("accuracy", "accuracy")

    def questions(self, split: str) -> Sequence[Question]:
        """Return four additions, different ones for each split.

        Raises:
            InputError: there is no such split.
        """
        splits = ("train", "validation", "test")
        if split not in splits:
            raise InputError(f"split is {split!r}; required: one of {', '.join(splits)}")
        first = 4 * splits.index(split)
        return [samples.question(number) for number in range(first, first + 4)]

    def score(self, episode: Episode, question: Question) -> Score:
        """Return 1 for the sum."""
        right = float(f"<answer>{question.answers[0]}</answer>" in (episode.answer or ""))
        return Score(right, "" if right else "the sum is wrong", {"accuracy": right})


class HostSuite(Suite[Host]):
    """Requirements of every host before anything is trained."""

    def test_plans_without_leaving_a_file(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            trial = Trial(seed=0, directory=Path(folder), budget=8, evaluate_every=8)
            with suppress(InputError):
                self.build().plan(Additions(), trial)
            file_names = sorted(path.name for path in Path(folder).iterdir())
            expect(not file_names, f"planning, it left files behind: {file_names}")


class LauncherSuite(Suite[Launcher]):
    """Requirements of every launcher before it is opened; no cluster is needed."""

    def test_starts_nothing_before_it_is_opened(self) -> None:
        before = threading.active_count(), len(multiprocessing.active_children())
        self.build()
        after = threading.active_count(), len(multiprocessing.active_children())
        expect(after == before, "building it started a thread or a process; required: in open()")

    def test_can_be_closed_without_having_been_opened(self) -> None:
        self.build().close()
