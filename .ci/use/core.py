"""The core alone: an instruction evolves under the fakes that it ships."""

from importlib.util import find_spec

from evoprompt import BuildContext, Engine, EngineConfig
from evoprompt.plugins import build
from evoprompt.testing import FakeTrainer, SampleTask, ScriptedPolicy
from evoprompt.testing.samples import question

assert not [name for name in ("torch", "transformers", "trl", "dspy", "litellm") if find_spec(name)]
task = SampleTask()
proposer = build("proposer", {"name": "sentence-edit"}, BuildContext(task))
config = EngineConfig(population_size=3, prune_every=2, evolve_every=4)
engine = Engine(task.seed_instructions, proposer=proposer, config=config, required=task.required)
policy = ScriptedPolicy(lambda assignment: float("Check the sum" in assignment.candidate.text))
FakeTrainer(policy, [question(number) for number in range(24)]).train(engine, steps=16)
assert "Check the sum" in engine.best.text
print(engine.best.text)
