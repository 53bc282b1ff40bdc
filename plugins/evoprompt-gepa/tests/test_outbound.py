"""Our proposers in the loops of the installed GEPA and DSPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dspy
import pytest
from evoprompt_gepa import as_proposal_fn
from gepa.api import optimize
from gepa.core.adapter import EvaluationBatch, ProposalFn
from gepa.core.result import GEPAResult

from evoprompt.proposers.bank import SentenceBank
from evoprompt.proposers.sentences import SentenceEdit
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.testing import OpenAIServer
from evoprompt.types import Proposal, Trajectory

SEED = "Answer the question."
BANK = SentenceBank(
    sentences={
        "yell": ("Write the whole answer in capitals.",),
        "polite": ("Begin with a greeting.", "Thank the reader."),
    },
    remedies={"lower case": ("yell",)},
    fixed=(SEED,),
)


def diagnose(trajectory: Trajectory) -> Sequence[str]:
    return ["lower case"] if "capitals" in trajectory.text else []


def sentence_edit() -> SentenceEdit:
    return SentenceEdit(BANK, diagnose)


def shouts(instruction: str) -> bool:
    return "capitals" in instruction


class Echo:
    """A system whose answer is right when its instruction says to use capitals."""

    propose_new_texts: ProposalFn | None = None

    def evaluate(
        self, batch: list[str], candidate: dict[str, str], capture_traces: bool = False
    ) -> EvaluationBatch[str, str]:
        outputs = [q.upper() if shouts(candidate["prompt"]) else q for q in batch]
        scores = [float(output.isupper()) for output in outputs]
        return EvaluationBatch(outputs, scores, outputs if capture_traces else None)

    def make_reflective_dataset(
        self,
        candidate: dict[str, str],
        eval_batch: EvaluationBatch[str, str],
        components_to_update: list[str],
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        examples = [
            {"Inputs": output, "Generated Outputs": output, "Feedback": "capitals were expected"}
            for output in eval_batch.outputs
        ]
        return dict.fromkeys(components_to_update, examples)


def test_gepa_optimizes_with_our_proposer() -> None:
    result: GEPAResult[str, int] = optimize(
        seed_candidate={"prompt": SEED},
        trainset=["one", "two", "three"],
        valset=["four", "five"],
        adapter=Echo(),
        custom_candidate_proposer=as_proposal_fn(sentence_edit()),
        max_metric_calls=40,
        logger=Quiet(),
    )
    best = result.best_candidate
    assert isinstance(best, dict)
    assert shouts(best["prompt"])
    assert result.val_aggregate_scores[result.best_idx] == 1.0
    assert result.val_aggregate_scores[0] == 0.0


class Quiet:
    """A logger for GEPA that prints nothing."""

    def log(self, message: str) -> None: ...


def test_dspy_gepa_optimizes_with_our_proposer() -> None:
    def student(body: Mapping[str, Any]) -> str:
        answer = "GOOD" if shouts(str(body)) else "good"
        return f"[[ ## answer ## ]]\n{answer}\n\n[[ ## completed ## ]]"

    def metric(gold: Any, answer: Any, *_: Any) -> dspy.Prediction:
        right = answer.answer.isupper()
        feedback = "right" if right else "capitals were expected"
        return dspy.Prediction(score=float(right), feedback=feedback)

    examples = [dspy.Example(question=f"q{n}").with_inputs("question") for n in range(4)]
    program = dspy.Predict(dspy.Signature("question -> answer", SEED))
    optimizer = dspy.GEPA(
        metric=metric,
        max_metric_calls=40,
        instruction_proposer=as_proposal_fn(sentence_edit()),
        num_threads=1,
        track_stats=True,
    )
    with OpenAIServer(default=student) as server:
        lm = dspy.LM("openai/scripted", api_base=server.url, api_key="none", cache=False)
        with dspy.context(lm=lm):
            found = optimizer.compile(program, trainset=examples, valset=examples)
    assert shouts(found.signature.instructions)
    assert max(found.detailed_results.val_aggregate_scores) == 1.0


class Scripted(Proposer):
    """Proposes what it was given and remembers what it was asked."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.requests: list[ProposalRequest] = []

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        self.requests.append(request)
        return [Proposal.of(text, request.parents[0].candidate) for text in self.texts]


EXAMPLE = {
    "Inputs": {"question": "Who?", "hint": "A king."},
    "Generated Outputs": {"answer": "Nobody."},
    "Feedback": "It was Henry.",
    "Tool": "No such person.",
}


def propose(proposer: Proposer, required: Sequence[str] = ()) -> dict[str, str]:
    candidate = {"prompt": "Say who it was in <answer>.", "tool": "Search."}
    fn = as_proposal_fn(proposer, required=required)
    return fn(
        candidate=candidate,
        reflective_dataset={"prompt": [EXAMPLE]},
        components_to_update=["prompt"],
    )


def test_examples_become_failed_trajectories() -> None:
    scripted = Scripted("Name the person in <answer>, then stop.")
    assert propose(scripted) == {"prompt": "Name the person in <answer>, then stop."}
    (failure,) = scripted.requests[0].failures
    assert failure.question.text == "question: Who?\nhint: A king."
    assert failure.turns[0].action == "answer: Nobody."
    assert failure.turns[0].observation == "Tool: No such person.\nIt was Henry."
    assert failure.reward == 0.0


@pytest.mark.parametrize(
    "bad", ["", "I'm sorry, but I cannot help with that.", "Name the person, then stop."]
)
def test_what_the_firewall_refuses_is_passed_over(bad: str) -> None:
    good = "Name the person in <answer>, then stop."
    assert propose(Scripted(bad, good), required=["<answer>"]) == {"prompt": good}
    assert propose(Scripted(bad), required=["<answer>"]) == {}
