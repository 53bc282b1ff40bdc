"""A proposer that adds one of its sentences to the best instruction so far."""

from pydantic import BaseModel

from evoprompt import BuildContext, Component, Proposal, ProposalRequest, Proposer, hookimpl


class HelloSettings(BaseModel, extra="forbid"):
    sentences: list[str] = ["Take your time.", "Check every step.", "Be brief."]


class Hello(Proposer):
    def __init__(self, settings: HelloSettings, context: BuildContext) -> None:
        self.sentences = settings.sentences

    def propose(self, request: ProposalRequest) -> list[Proposal]:
        parent = request.parents[0].candidate
        new = [text for text in self.sentences if text not in parent.text]
        drawn = request.rng.sample(new, min(request.count, len(new)))
        return [Proposal.of(f"{parent.text} {text}", parent, rationale=text) for text in drawn]


@hookimpl
def evoprompt_components() -> list[Component[HelloSettings]]:
    return [Component("proposer", "hello", Hello, HelloSettings, "Adds a sentence of its own")]
