"""The suite of proposers passes what is right and names what is wrong."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from failing_checks import failing
from pydantic import JsonValue

from evoprompt import Proposer
from evoprompt.roles import ProposalRequest
from evoprompt.testing import (
    ProposerSuite,
)
from evoprompt.types import (
    Proposal,
    VerificationResult,
)


class Appending(Proposer):
    """Appends a sentence that it draws to the best parent."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        parent = request.parents[0].candidate
        drawn = request.rng.sample(range(100), request.count)
        return [Proposal.of(f"{parent.text} Rule {number}.", parent) for number in drawn]


class TestProposers:
    def test_the_right_one_passes(self) -> None:
        assert failing(ProposerSuite, Appending) == set()

    def test_one_that_returns_texts(self) -> None:
        class Texts(Proposer):
            def propose(  # type: ignore[override]
                self, request: ProposalRequest
            ) -> Sequence[str]:
                return ["Be brief."]

        assert "returns proposals with the components of the parent" in failing(
            ProposerSuite, Texts
        )

    def test_one_that_invents_a_component(self) -> None:
        class Inventing(Appending):
            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                return [
                    replace(one, components={**one.components, "tool": "x"})
                    for one in super().propose(request)
                ]

        assert failing(ProposerSuite, Inventing) == {
            "returns proposals with the components of the parent"
        }

    def test_one_that_never_has_an_idea(self) -> None:
        class Mute(Proposer):
            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                return []

        assert failing(ProposerSuite, Mute) == {"has an idea when there are failures"}

    def test_one_that_loses_the_tags(self) -> None:
        class Blunt(Appending):
            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                return [Proposal.of("Be brief.", request.parents[0].candidate)]

        assert failing(ProposerSuite, Blunt) == {"keeps what is required"}

    def test_one_that_echoes_its_parent(self) -> None:
        class Echo(Proposer):
            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                parent = request.parents[0].candidate
                return [Proposal.of(parent.text, parent)]

        assert failing(ProposerSuite, Echo) == {"proposes something new"}

    def test_one_that_names_a_stranger_as_parent(self) -> None:
        class Adopting(Appending):
            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                return [replace(one, parents=("c99",)) for one in super().propose(request)]

        assert failing(ProposerSuite, Adopting) == {"names parents it was given"}

    def test_one_that_floods(self) -> None:
        class Flooding(Appending):
            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                return super().propose(replace(request, count=5 * request.count))

        assert failing(ProposerSuite, Flooding) == {"does not overwhelm"}

    def test_one_that_empties_the_failures(self) -> None:
        class Emptying(Appending):
            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                assert isinstance(request.failures, list)
                request.failures.clear()
                return super().propose(request)

        assert failing(ProposerSuite, Emptying) == {"changes nothing it is given"}

    def test_one_that_needs_a_failure(self) -> None:
        class Demanding(Appending):
            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                assert request.failures[0].reward == 0.0
                return super().propose(request)

        found = failing(ProposerSuite, Demanding)
        assert "returns proposals with the components of the parent" in found

    def test_one_that_draws_from_the_global_generator(self) -> None:
        class Global(Appending):
            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                return super().propose(replace(request, rng=random.Random(random.random())))

        assert failing(ProposerSuite, Global) == {
            "continues from a saved state",
            "draws only from the generator handed in",
            "proposes alike however often it proposed before",
            "repeats itself from the seed",
        }

    def test_one_that_draws_from_nowhere_need_not_repeat_itself_if_it_asks_an_lm(self) -> None:
        class Unseeded(Appending):
            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                return super().propose(replace(request, rng=random.Random()))

        assert failing(ProposerSuite, Unseeded) == {
            "continues from a saved state",
            "proposes alike however often it proposed before",
            "repeats itself from the seed",
        }

        class Freely(ProposerSuite):
            repeatable = False

        assert failing(Freely, Unseeded) == set()

    def test_one_that_loses_its_state(self) -> None:
        class Counting(Appending):
            def __init__(self) -> None:
                self.calls = 0

            def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
                self.calls += 1
                parent = request.parents[0].candidate
                return [Proposal.of(f"{parent.text} Call {self.calls}.", parent)]

            def state_dict(self) -> dict[str, JsonValue]:
                return {}

            def load_state_dict(self, state: Mapping[str, JsonValue]) -> None: ...

        assert failing(ProposerSuite, Counting) == {
            "continues from a saved state",
            "proposes alike however often it proposed before",
        }

    def test_one_that_thinks_ahead_but_never_answers(self) -> None:
        class Dreaming(Appending):
            ready = True

            def anticipate(self, request: ProposalRequest) -> None:
                self.propose = lambda request: []  # type: ignore[method-assign]

        assert failing(ProposerSuite, Dreaming) == {"proposes what it thought ahead"}

    def test_one_that_is_never_ready(self) -> None:
        class Brooding(Appending):
            ready = False

            def anticipate(self, request: ProposalRequest) -> None: ...

        class Impatient(ProposerSuite):
            patience = 0.05

        assert failing(Impatient, Brooding) == {"proposes what it thought ahead"}

    def test_one_that_chokes_on_an_unscored_verdict(self) -> None:
        class Choking(Appending):
            def feedback(self, results: Sequence[VerificationResult]) -> None:
                assert all(result.scored for result in results)

        assert failing(ProposerSuite, Choking) == {"takes in results"}

    def test_one_that_reports_nan(self) -> None:
        class Vague(Appending):
            def notices(self) -> Sequence[str]:
                return []

            def metrics(self) -> Mapping[str, float]:
                return {"lm/usd": math.nan}

        assert failing(ProposerSuite, Vague) == {"reports in words and finite numbers"}
