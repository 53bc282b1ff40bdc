"""The conformance suite of hosts."""

from __future__ import annotations

import tempfile
from pathlib import Path

from evoprompt.agents.tasks import Host, Plan, Trial
from evoprompt.errors import InputError
from evoprompt.testing.fakes import SampleTask
from evoprompt.testing.suite import Suite, expect


class HostSuite(Suite[Host]):
    """What every host must keep before anything is trained."""

    def test_plans_without_leaving_a_file(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            trial = Trial(seed=0, directory=Path(folder), budget=8, evaluate_every=8)
            try:
                plan = self.build().plan(SampleTask(), trial)
            except InputError:
                plan = None
            expect(
                plan is None or isinstance(plan, Plan),
                f"the plan is a {type(plan).__name__}; required: a Plan of evoprompt.agents.tasks, "
                "or None",
            )
            left = sorted(path.name for path in Path(folder).iterdir())
            expect(not left, f"planning, it left files behind: {left}")
