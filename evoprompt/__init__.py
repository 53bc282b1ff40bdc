"""Co-evolve an agent's instructions with its policy while it is trained by reinforcement learning.

The public names load on first use (PEP 562): importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evoprompt.agents.tasks import Task as Task
    from evoprompt.hosting.attachment import (
        Attachment as Attachment,
        AttachRequest as AttachRequest,
        attach as attach,
    )
    from evoprompt.hosting.binding import purpose as purpose
    from evoprompt.config import EngineConfig as EngineConfig
    from evoprompt.engine import Engine as Engine
    from evoprompt.support.errors import (
        EvopromptError as EvopromptError,
        EvopromptWarning as EvopromptWarning,
        InputError as InputError,
    )
    from evoprompt.log.eventlog import EventLog as EventLog
    from evoprompt.log.events import Event as Event
    from evoprompt.gateway import Gateway as Gateway
    from evoprompt.hookspecs import hookimpl as hookimpl
    from evoprompt.optimizer.api import optimize as optimize
    from evoprompt.optimizer.callbacks import OptimizeCallback as OptimizeCallback
    from evoprompt.optimizer.coevolve import CoEvolve as CoEvolve
    from evoprompt.optimizer.options import OptimizeOptions as OptimizeOptions
    from evoprompt.optimizer.result import OptimizationResult as OptimizationResult
    from evoprompt.plugins import named as named
    from evoprompt.components import (
        BuildContext as BuildContext,
        Component as Component,
        NoSettings as NoSettings,
    )
    from evoprompt.roles import (
        Attributor as Attributor,
        Population as Population,
        ProposalRequest as ProposalRequest,
        Proposer as Proposer,
        RolloutFn as RolloutFn,
        Selector as Selector,
        VerificationRequest as VerificationRequest,
        Verifier as Verifier,
    )
    from evoprompt.types import (
        Assignment as Assignment,
        Candidate as Candidate,
        CandidateStats as CandidateStats,
        EvolveReport as EvolveReport,
        Proposal as Proposal,
        Question as Question,
        StepReport as StepReport,
        Trajectory as Trajectory,
        Turn as Turn,
        Verification as Verification,
        VerificationResult as VerificationResult,
    )

_HOMES = {
    "Assignment": "types",
    "AttachRequest": "hosting.attachment",
    "Attachment": "hosting.attachment",
    "Attributor": "roles",
    "BuildContext": "components",
    "Candidate": "types",
    "CoEvolve": "optimizer.coevolve",
    "Component": "components",
    "Engine": "engine",
    "EngineConfig": "config",
    "Event": "log.events",
    "EventLog": "log.eventlog",
    "EvolveReport": "types",
    "EvopromptError": "support.errors",
    "EvopromptWarning": "support.errors",
    "Gateway": "gateway",
    "InputError": "support.errors",
    "NoSettings": "components",
    "OptimizationResult": "optimizer.result",
    "OptimizeCallback": "optimizer.callbacks",
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
    "attach": "hosting.attachment",
    "hookimpl": "hookspecs",
    "named": "plugins",
    "optimize": "optimizer.api",
    "purpose": "hosting.binding",
}

__all__ = sorted(_HOMES.keys() - {"CoEvolve", "Gateway"})  # their imports need extras


if not TYPE_CHECKING:  # else a type checker would take any misspelt name for an object

    def __getattr__(name: str) -> object:
        """Return a public name, imported on first use from the module that defines it."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
