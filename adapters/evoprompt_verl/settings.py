"""The section ``evoprompt`` of a veRL configuration, and the engine it describes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from omegaconf import DictConfig, OmegaConf
from pydantic import Field

from evoprompt.agents.tasks import Task
from evoprompt.components import BuildContext, ProposerSyntax
from evoprompt.config import Preset
from evoprompt.engine import Engine
from evoprompt.hosting.prompts import PLACEMENTS, Placement, Render
from evoprompt.hosting.section import EngineSection
from evoprompt.lm.budget import SPENDING_FILE, SpendTracker
from evoprompt.log.eventlog import EventLog
from evoprompt.plugins import Choice, build, plugins
from evoprompt.support.errors import InputError
from evoprompt.support.validation import validate_settings

PRESETS: tuple[Preset, ...] = get_args(Preset)
SECTION = "evoprompt"
PROPOSER_SYNTAX = ProposerSyntax(
    f"'{SECTION}.proposer={{name:reflection,lm:{{model:openai/gpt-5-mini}}}}'",
    f"{SECTION}.proposer=null",
)
"""The overrides of a veRL command that set the proposer."""


class VerlSettings(EngineSection, frozen=True):
    """Settings of the engine, flat, and further settings of a veRL run.

    Attributes:
        task: name of a task with seed instructions, required tags and a sentence bank.
    """

    instructions: tuple[str, ...] = Field((), description="where to start")
    instruction_files: tuple[Path, ...] = Field((), description="files that hold one each")
    required: tuple[str, ...] = Field((), description="substrings every instruction must hold")
    task: Choice | None = None
    placement: Placement = Field(
        "append",
        description="after the dataset's system message, instead of it, or before the first "
        "user message",
    )
    seed: int = Field(0, ge=0, description="of the engine's randomness")
    events: Path | None = Field(
        None, description="log of events; evoprompt_events.jsonl beside the checkpoints if null"
    )
    services: tuple[str, ...] = Field(
        (), description="addresses that must answer before the run starts, such as a tool's server"
    )
    agent_loop_manager_class: str | None = Field(
        None, description="the manager to use, where veRL's own will not do"
    )

    @classmethod
    def of(cls, config: DictConfig) -> VerlSettings:
        """Return the settings in a composed veRL configuration.

        Raises:
            InputError: there are none, or a setting cannot be used.
        """
        section = OmegaConf.select(config, SECTION)
        if section is None:
            raise InputError(
                f"the configuration has no section {SECTION!r}; required: +{SECTION}=inspo or "
                f"+{SECTION}=default on the command line"
            )
        values = OmegaConf.to_container(section, resolve=True)
        assert isinstance(values, Mapping)
        return validate_settings(cls, values, SECTION)

    @property
    def render(self) -> Render:
        """Place the instruction in a prompt."""
        return PLACEMENTS[self.placement]

    def seeds(self, task: Task | None) -> list[str]:
        """Return the first candidates: the given ones, or those of the task.

        Raises:
            InputError: there are none, or a file cannot be read.
        """
        seeds = [*self.instructions, *(_text(path) for path in self.instruction_files)]
        seeds = seeds or list(task.seed_instructions if task else ())
        if not seeds:
            raise InputError(
                "no seed instruction was given; required: at least one; add "
                f"{SECTION}.instructions='[\"...\"]', {SECTION}.instruction_files=[FILE] or "
                f"{SECTION}.task=NAME"
            )
        return seeds

    def build_engine(
        self, log: EventLog | None = None, spending: SpendTracker | None = None
    ) -> Engine:
        """Build the engine from these settings.

        Args:
            log: event log; in memory if not given.
            spending: account of its language models; in memory if not given.

        Raises:
            PluginError: a component is unknown or cannot be built.
            InputError: a setting or a seed instruction cannot be used.
        """
        task: Task | None = build("task", self.task) if self.task else None
        directory = log.path.parent if log is not None and log.path is not None else None
        spending = SpendTracker() if spending is None else spending
        context = BuildContext(task, directory, spending, syntax=PROPOSER_SYNTAX)
        required = [*self.required, *(task.required if task else ())]
        return self.engine(self.seeds(task), context, self.seed, required, log)

    def event_log(self, config: DictConfig, resumes: bool) -> EventLog:
        """Return the event log of a run; set that of an earlier run aside."""
        log = EventLog(_own(self._events(config), resumes))
        log.subscribe(plugins().notify)
        return log

    def spending(self, config: DictConfig, resumes: bool) -> SpendTracker:
        """Return the account of a run's language models, in a journal that survives a kill.

        The journal of an earlier run is set aside.
        """
        events = self._events(config)
        return SpendTracker(_own(events.with_name(f"{events.stem}-{SPENDING_FILE}"), resumes))

    def _events(self, config: DictConfig) -> Path:
        return self.events or Path(config.trainer.default_local_dir) / "evoprompt_events.jsonl"


def defaults(preset: Preset) -> dict[str, Any]:
    """Return every setting with its value under ``preset``, as JSON values."""
    return VerlSettings.model_validate({"preset": preset}).model_dump(mode="json")


def _own(path: Path, resumes: bool) -> Path:
    """``path``, free unless the run resumes."""
    if not resumes and path.exists():
        path.replace(path.with_name(f"{path.stem}.previous{path.suffix}"))
    return path


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:  # also a file that is no text, and a NUL in the path
        raise InputError(
            f"{SECTION}.instruction_files: {path} cannot be read ({error}); required: a text file "
            "that holds one instruction"
        ) from error
