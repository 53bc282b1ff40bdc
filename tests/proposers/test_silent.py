"""An engine with the silent proposer keeps its seeds."""

from __future__ import annotations

from evoprompt.proposers.combinators import NoProposer
from evoprompt.testing.samples import request


def test_it_never_proposes_anything() -> None:
    assert NoProposer().propose(request()) == []
