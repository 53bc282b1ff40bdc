"""Every rule takes time linear in the text.

No clock: the text is four times what the door lets in. A pattern that tries each of its
letters against each other one would do so for hours, which the time limit of pytest ends.
"""

from __future__ import annotations

import pytest

from evoprompt.rules import ScreeningContext, default_rules
from evoprompt.types import Proposal

SIZE = 250_000
PIECES = [" ", "a, ", "<a", "1 "]
MORE = ["\n", "</a>b<a>", "`a", "{{ [a b ", "a. new instruction:\n", "a.b.", "test ", "every "]


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", [*PIECES, *(pytest.param(one, marks=pytest.mark.nightly) for one in MORE)]
)
def test_a_long_text_is_judged(piece: str) -> None:
    proposal = Proposal.of((piece * (SIZE // len(piece) + 1))[:SIZE])
    context = ScreeningContext(
        parents=["Use <a> and </a>."], questions=["a " * 50], answers=["a b c"]
    )
    reasons = [rule(proposal, context) for rule in default_rules()]
    assert any(reasons), "the tokens are too many"
