"""Every private name of veRL's that is touched is looked for before anything depends on it."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module, metadata
from types import SimpleNamespace
from typing import Any

import pytest
from evoprompt_verl import host

from evoprompt.experiments import requirements
from evoprompt.hosting.attachment import methods_of, require_attributes
from evoprompt.support.errors import AttachError

V1 = "verl.trainer.ppo.v1"
PLACES = [
    *((f"{V1}.trainer_base", "PPOTrainer", name) for name in methods_of(host.VerlTrainer)),
    (f"{V1}.replay_buffer", "ReplayBuffer", "sample"),
    *(("transfer_queue", "", name) for name in methods_of(host.HostQueue)),
    (V1, "AgentLoopManagerTQ", "generate_sequences"),
    *((module, "", name) for module, functions in host.FUNCTIONS.items() for name in functions),
]
OF_A_RUN = [(*place, name) for place, names in host.RUN.items() for name in names]


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what veRL imports warns about itself
        yield


def test_the_installed_verl_has_everything() -> None:
    host.require_host()
    host.require_run()


@pytest.mark.parametrize(
    ("places", "require"), [(PLACES, host.require_host), (OF_A_RUN, host.require_run)]
)
def test_whatever_is_moved_is_named(
    places: Sequence[tuple[str, str, str]], require: Callable[[], None]
) -> None:
    for module, kind, name in places:
        owner: Any = import_module(module)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(getattr(owner, kind) if kind else owner, name, None)
            with pytest.raises(AttachError, match=rf"has no {name}; required: {name}\("):
                require()


def test_a_convention_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect, "getsource", lambda module: "nothing")
    with pytest.raises(AttachError, match="does not mention __rollout_n__"):
        host.require_host()
    with pytest.raises(AttachError, match=r"does not mention self\.config = "):
        host.require_run()


def test_an_attribute_that_is_gone_is_named() -> None:
    for name in host.ATTRIBUTES:
        trainer: Any = SimpleNamespace()
        for path in host.ATTRIBUTES:
            if not f"{path}.".startswith(f"{name}."):
                first, _, second = path.partition(".")
                inner = getattr(trainer, first, SimpleNamespace())
                setattr(inner, second or "value", 1)
                setattr(trainer, first, inner)
        with pytest.raises(AttachError, match=f"has no {name}"):
            require_attributes(trainer, host.ATTRIBUTES, "")


def test_flash_attention_is_pinned_as_verl_pins_it() -> None:
    assert any(
        requirement.startswith(f"{requirements.FLASH_ATTENTION};")
        for requirement in metadata.requires("verl") or ()
    )
