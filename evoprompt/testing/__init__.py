"""Conformance suites, fakes and sample records, for authors of components.

Subclass the suite of your role in a test module and implement the build of your component::

    class TestMine(ProposerSuite):
        def build(self) -> Proposer:
            return Mine()

``evoprompt plugins --check NAME`` runs the same suites on an installed component. Those of tasks,
hosts and launchers are in ``evoprompt.experiments.testing``.
"""

from evoprompt.testing.attributors import AttributorSuite
from evoprompt.testing.checks import check
from evoprompt.testing.fakes import FakeTrainer, SampleTask, ScriptedEstimator, ScriptedPolicy
from evoprompt.testing.openai_server import OpenAIServer
from evoprompt.testing.populations import PopulationSuite
from evoprompt.testing.proposers import ProposerSuite
from evoprompt.testing.selectors import SelectorSuite
from evoprompt.testing.suite import Result, Suite, run
from evoprompt.testing.verifiers import VerifierSuite

__all__ = [
    "AttributorSuite",
    "FakeTrainer",
    "OpenAIServer",
    "PopulationSuite",
    "ProposerSuite",
    "Result",
    "SampleTask",
    "ScriptedEstimator",
    "ScriptedPolicy",
    "SelectorSuite",
    "Suite",
    "VerifierSuite",
    "check",
    "run",
]
