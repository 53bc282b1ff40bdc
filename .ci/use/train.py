"""The extra ``trl`` alone: ``train.py [REPORT_TO]`` trains while an instruction evolves."""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "contracts"))

import tiny_trl

import evoprompt
from evoprompt import EngineConfig, Proposal, ProposalRequest, Proposer


class Longer(Proposer):
    """Adds a sentence to each parent."""

    def propose(self, request: ProposalRequest) -> list[Proposal]:
        """The parents' texts, longer by two words."""
        return [
            Proposal.of(f"{one.candidate.text} Be brief.", one.candidate) for one in request.parents
        ]


with tempfile.TemporaryDirectory() as folder:
    settings = {"report_to": sys.argv[1], "logging_steps": 1} if sys.argv[1:] else {}
    trainer = tiny_trl.trainer(Path(folder), max_steps=3, **settings)
    config = EngineConfig(prune_every=1, evolve_every=2, verify_questions=2, accept="top")
    engine = evoprompt.Engine(["Answer."], proposer=Longer(), config=config)
    evoprompt.attach(trainer, engine)
    trainer.train()
    assert engine.metrics()["generations"] > 0
    assert engine.metrics()["verification_rollouts"] > 0
    assert not settings or list(Path(folder).rglob("events.out.tfevents.*"))
print(engine.best.text)
