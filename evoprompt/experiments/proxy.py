"""A gateway as a file of settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import Field, ValidationError

from evoprompt.components import BuildContext
from evoprompt.experiments.config import PROPOSER_SYNTAX
from evoprompt.gateway import Gateway, GatewaySettings
from evoprompt.hosting.section import EngineSection
from evoprompt.lm.budget import SPENDING_FILE, SpendTracker
from evoprompt.support import yamlfile
from evoprompt.support.errors import InputError
from evoprompt.support.validation import explain
from evoprompt.types import Written


class ProxySettings(GatewaySettings, frozen=True):
    """What ``evoprompt gateway`` reads: a gateway's settings, and its engine.

    Attributes:
        instructions: the first ones, each a text or a text per component.
        engine: its numbers, and a proposer that needs no task.
        seed: of its randomness.
    """

    instructions: list[Written] = Field(min_length=1)
    engine: EngineSection
    seed: int = 0


def gateway_of(path: Path) -> Gateway:
    """The gateway that a file describes.

    Raises:
        InputError: the file cannot be read, or a setting cannot be used.
    """
    try:
        read = ProxySettings.model_validate(yamlfile.read(path))
    except ValidationError as error:
        raise InputError(f"{path}: {explain(error, ProxySettings)}") from error
    spending = SpendTracker(read.directory / SPENDING_FILE)
    syntax = replace(PROPOSER_SYNTAX, static="engine.proposer: null")
    context = BuildContext(spending=spending, syntax=syntax)
    return Gateway(read.engine.engine(read.instructions, context, read.seed), read)
