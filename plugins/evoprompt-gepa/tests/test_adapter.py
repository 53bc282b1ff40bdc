"""``evoprompt.optimize(program=adapter)`` with the installed GEPA's own adapter."""

from __future__ import annotations

from collections.abc import Sequence

from evoprompt_gepa import as_proposal_fn
from gepa.adapters.default_adapter.default_adapter import (
    ChatMessage,
    DefaultAdapter,
    DefaultDataInst,
)

import evoprompt
from evoprompt import Proposal, ProposalRequest, Proposer

SEED = {"system_prompt": "Answer the question."}


def example(number: int) -> DefaultDataInst:
    return {"input": f"What is {number} plus 1?", "additional_context": {}, "answer": "sum"}


def model(messages: Sequence[ChatMessage]) -> str:
    system, user = messages
    assert (system["role"], user["role"]) == ("system", "user")
    return "the sum" if "step by step" in system["content"] else "perhaps"


class Teacher(Proposer):
    """Says what was missing once the feedback of GEPA's evaluator asks for the answer."""

    def __init__(self) -> None:
        self.requests: list[ProposalRequest] = []

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        self.requests.append(request)
        parent = request.parents[0].candidate
        (name,) = parent.components  # GEPA's in our loop, ours in GEPA's
        said = [failure.feedback + failure.turns[0].observation for failure in request.failures]
        assert all("correct answer is 'sum'" in one for one in said)
        better = f"{parent.text} Add it up step by step."
        return [Proposal({name: better}, (parent.id,))]


def test_gepa_s_default_adapter_is_used_as_it_is() -> None:
    teacher = Teacher()
    result = evoprompt.optimize(
        SEED,
        [example(number) for number in range(10)],
        program=DefaultAdapter(model),
        valset=[example(number) for number in range(10, 20)],
        proposer=teacher,
        budget=60,
    )
    assert result.value == 1.0
    assert "step by step" in result.best.components["system_prompt"]
    (failure, *_) = teacher.requests[0].failures
    assert failure.question.text.startswith("What is ")
    assert failure.turns[0].action == "perhaps"


def test_texts_that_the_adapter_writes_itself() -> None:
    class Writing(DefaultAdapter):
        propose_new_texts = staticmethod(as_proposal_fn(Teacher()))

    result = evoprompt.optimize(
        SEED,
        [example(number) for number in range(10)],
        program=Writing(model),
        valset=[example(number) for number in range(10, 20)],
        budget=60,
    )
    assert result.value == 1.0
