"""Proposer that adds one of its sentences to the best instruction so far."""

from pydantic import BaseModel, Field

from evoprompt import Component, Proposal, ProposalRequest, Proposer, hookimpl


class Hello(Proposer):
    """Proposer that adds a sentence of its own."""

    class Settings(BaseModel, extra="forbid"):
        sentences: list[str] = Field(
            ["Take your time.", "Check every step.", "Be brief."], description="sentences to add"
        )

    def __init__(self, sentences: list[str]) -> None:
        self.sentences = sentences

    def propose(self, request: ProposalRequest) -> list[Proposal]:
        parent = request.parents[0].candidate
        new = [text for text in self.sentences if text not in parent.text]
        chosen = request.rng.sample(new, min(request.count, len(new)))
        return [Proposal.of(f"{parent.text} {text}", parent, rationale=text) for text in chosen]


@hookimpl
def evoprompt_components() -> list[type[Component]]:
    return [Hello]
