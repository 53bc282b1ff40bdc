"""Gateway that is described by a file of settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import Field

from evoprompt.components import BuildContext
from evoprompt.experiments.config import PROPOSER_SYNTAX
from evoprompt.gateway import Gateway, GatewaySettings
from evoprompt.hosting.section import EngineSection
from evoprompt.lm.budget import SPENDING_FILE, SpendTracker
from evoprompt.support import yamlfile
from evoprompt.support.validation import validate_settings
from evoprompt.types import Written


class ProxySettings(GatewaySettings, frozen=True):
    """Settings of ``evoprompt gateway``: those of a gateway, and its engine.

    Attributes:
        instructions: the seeds, each a text or a text per component.
        engine: settings of the engine, with a proposer that needs no task.
        seed: of the random generator.
    """

    instructions: list[Written] = Field(min_length=1)
    engine: EngineSection
    seed: int = 0


def gateway_of(path: Path) -> Gateway:
    """Return the gateway that a file describes.

    Raises:
        InputError: the file cannot be read, or a setting cannot be used.
    """
    read = validate_settings(ProxySettings, yamlfile.read(path), str(path))
    spending = SpendTracker(read.directory / SPENDING_FILE)
    syntax = replace(PROPOSER_SYNTAX, static="engine.proposer: null")
    context = BuildContext(spending=spending, syntax=syntax)
    return Gateway(read.engine.engine(read.instructions, context, read.seed), read)
