"""Co-evolve an agent's instructions with its policy while it is trained by reinforcement learning.

The public names load on first use (PEP 562): importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evoprompt.agents.tasks import Task
    from evoprompt.attachment import Attachment, AttachRequest, attach
    from evoprompt.binding import purpose
    from evoprompt.config import EngineConfig
    from evoprompt.engine import Engine
    from evoprompt.errors import EvopromptError, EvopromptWarning, InputError
    from evoprompt.eventlog import EventLog
    from evoprompt.events import Event
    from evoprompt.gateway import Gateway as Gateway
    from evoprompt.hookspecs import hookimpl
    from evoprompt.optimizer.api import optimize
    from evoprompt.optimizer.coevolve import CoEvolve as CoEvolve
    from evoprompt.optimizer.options import OptimizeOptions
    from evoprompt.optimizer.result import OptimizationResult
    from evoprompt.plugins import named
    from evoprompt.roles import (
        Attributor,
        BuildContext,
        Component,
        NoSettings,
        Population,
        ProposalRequest,
        Proposer,
        RolloutFn,
        Selector,
        VerificationRequest,
        Verifier,
    )
    from evoprompt.types import (
        Assignment,
        Candidate,
        CandidateStats,
        EvolveReport,
        Proposal,
        Question,
        StepReport,
        Trajectory,
        Turn,
        Verification,
        VerificationResult,
    )

_HOMES = {
    "Assignment": "types",
    "AttachRequest": "attachment",
    "Attachment": "attachment",
    "Attributor": "roles",
    "BuildContext": "roles",
    "Candidate": "types",
    "CoEvolve": "optimizer.coevolve",
    "Component": "roles",
    "Engine": "engine",
    "EngineConfig": "config",
    "Event": "events",
    "EventLog": "eventlog",
    "EvolveReport": "types",
    "EvopromptError": "errors",
    "EvopromptWarning": "errors",
    "Gateway": "gateway",
    "InputError": "errors",
    "NoSettings": "roles",
    "OptimizationResult": "optimizer.result",
    "OptimizeOptions": "optimizer.options",
    "Population": "roles",
    "Proposal": "types",
    "ProposalRequest": "roles",
    "Proposer": "roles",
    "Question": "types",
    "RolloutFn": "roles",
    "Selector": "roles",
    "CandidateStats": "types",
    "StepReport": "types",
    "Task": "agents.tasks",
    "Trajectory": "types",
    "Turn": "types",
    "VerificationResult": "types",
    "Verification": "types",
    "VerificationRequest": "roles",
    "Verifier": "roles",
    "attach": "attachment",
    "hookimpl": "hookspecs",
    "named": "plugins",
    "optimize": "optimizer.api",
    "purpose": "binding",
}

# Less `CoEvolve` and `Gateway`, whose imports need the extras `lm` and `gateway`.
__all__ = [
    "Assignment",
    "AttachRequest",
    "Attachment",
    "Attributor",
    "BuildContext",
    "Candidate",
    "CandidateStats",
    "Component",
    "Engine",
    "EngineConfig",
    "Event",
    "EventLog",
    "EvolveReport",
    "EvopromptError",
    "EvopromptWarning",
    "InputError",
    "NoSettings",
    "OptimizationResult",
    "OptimizeOptions",
    "Population",
    "Proposal",
    "ProposalRequest",
    "Proposer",
    "Question",
    "RolloutFn",
    "Selector",
    "StepReport",
    "Task",
    "Trajectory",
    "Turn",
    "Verification",
    "VerificationRequest",
    "VerificationResult",
    "Verifier",
    "attach",
    "hookimpl",
    "named",
    "optimize",
    "purpose",
]


if not TYPE_CHECKING:  # else a type checker would take any misspelt name for an object

    def __getattr__(name: str) -> object:
        """The public name of the module that defines it, imported on first use."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
