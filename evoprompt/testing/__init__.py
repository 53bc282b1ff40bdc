"""For authors of components: conformance suites, fakes and sample records.

Subclass the suite of your role in a test module and say how to build your component::

    class TestMine(ProposerSuite):
        def build(self) -> Proposer:
            return Mine()

``evoprompt plugins --check NAME`` runs the same suites on an installed component.
"""

from evoprompt.testing.attributors import AttributorSuite
from evoprompt.testing.checks import check
from evoprompt.testing.fakes import FakeTrainer, SampleTask, ScriptedPolicy
from evoprompt.testing.hosts import HostSuite
from evoprompt.testing.openai_server import OpenAIServer
from evoprompt.testing.populations import PopulationSuite
from evoprompt.testing.proposers import ProposerSuite
from evoprompt.testing.selectors import SelectorSuite
from evoprompt.testing.suite import Result, Suite, run
from evoprompt.testing.tasks import TaskSuite
from evoprompt.testing.training import TaskTrainingSuite
from evoprompt.testing.verifiers import VerifierSuite

__all__ = [
    "AttributorSuite",
    "FakeTrainer",
    "HostSuite",
    "OpenAIServer",
    "PopulationSuite",
    "ProposerSuite",
    "Result",
    "SampleTask",
    "ScriptedPolicy",
    "SelectorSuite",
    "Suite",
    "TaskSuite",
    "TaskTrainingSuite",
    "VerifierSuite",
    "check",
    "run",
]
