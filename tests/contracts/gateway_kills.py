"""A gateway whose conversations are had in a fixed order, and that may be killed anywhere.

Who drives it keeps no notes: it asks again for what it does not know to have happened, as a trainer
that lost its connection does.
"""

from __future__ import annotations

import json
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from contract_runs import EngineSpec
from faults import WORK

from evoprompt.gateway.conversations import Conversations, UnknownConversationError
from evoprompt.gateway.settings import GatewaySettings
from evoprompt.support.errors import InputError
from evoprompt.types import Question

ROLLOUTS, GROUPS = 4, 3
ENGINE = EngineSpec(
    seeds=("be brief",),
    settings={"population_size": 4, "prune_every": 2, "proposals_per_round": 2},
)


def reward_of(question: str, instruction: str, place: int) -> float:
    """A reward that depends on question, instruction and rollout, and on nothing else."""
    text = f"{question} {instruction} {place}"
    return blake2b(text.encode(), digest_size=1).digest()[0] / 255


def have(conversations: Conversations, step: int) -> None:
    """All conversations of a step, one after another; those that were had are left out."""
    for number in range(GROUPS):
        group = f"{step}/{number}"
        for place in range(ROLLOUTS):
            question, key = Question(f"q{number}", f"Question {number}?"), f"{group}/{place}"
            with suppress(InputError, UnknownConversationError):  # it was had
                conversations.conversation(question, group, key)
                with conversations.calling(key) as candidate:
                    said = candidate.instruction
                conversations.record_answer(key, "seen", f"said {said}", request=key)
                conversations.reward(key, reward_of(question.id, said, place))


def main(directory: Path) -> None:
    """Goes on with what is there, and leaves ``result.json``."""
    steps = json.loads((directory / "settings.json").read_text()).get("steps", 4)
    engine = ENGINE.build()
    settings = GatewaySettings(
        upstream="http://127.0.0.1:9/v1",
        directory=directory / WORK,
        rollouts=ROLLOUTS,
        groups=GROUPS,
    )
    conversations = Conversations(engine, settings, lambda: 0.0)
    while engine.step < steps:
        have(conversations, engine.step)
    result = {"state": engine.state_dict(), "events": list(engine.log)}
    conversations.close()
    (directory / "result.json").write_text(json.dumps(result))
