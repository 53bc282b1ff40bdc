from __future__ import annotations

from evoprompt_calculator.task import Calculator, CalculatorSettings

from evoprompt.experiments.testing import TaskSuite


class TestCalculator(TaskSuite):
    def build(self) -> Calculator:
        return Calculator(CalculatorSettings(train=20, validation=10, test=10))
