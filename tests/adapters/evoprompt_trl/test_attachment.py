from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from evoprompt_trl.attachment import TrlAttachment

import evoprompt
from evoprompt.hosting.attachment import AttachRequest
from evoprompt.hosting.prompts import system_message
from evoprompt.support.errors import InputError


def trainer(**attributes: Any) -> Any:
    return SimpleNamespace(num_generations=4, **attributes)


def engine(**settings: Any) -> evoprompt.Engine:
    return evoprompt.Engine(["be brief"], config=evoprompt.EngineConfig(**settings))


@pytest.mark.parametrize("generations", [1, 3])
def test_a_refused_trainer_is_not_touched(generations: int) -> None:
    refused: Any = SimpleNamespace(num_generations=generations)
    request = AttachRequest(refused, engine(candidates_per_question=2), system_message)
    with pytest.raises(InputError, match=f"num_generations is {generations}"):
        TrlAttachment(refused, request)
    assert vars(refused) == {"num_generations": generations}
