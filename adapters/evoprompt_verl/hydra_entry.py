"""``+evoprompt=inspo`` on veRL's own command line.

The hydra plugin beside this package calls :func:`register`, which adds the config group
``evoprompt`` to veRL's tree: one choice a preset, every setting of the engine with its value, and
what veRL has to be told. The section is open (not a hydra struct), so that an unknown key reaches
our own validation and is answered by one line, like every other mistake.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from ray.exceptions import RayTaskError
from rich.console import Console

from evoprompt.config import Preset
from evoprompt.hosting.attachment import attach
from evoprompt.support.errors import AttachError, EvopromptError, NothingEvolvedError
from evoprompt_verl import workplace
from evoprompt_verl.checkpoint import StepFolders
from evoprompt_verl.cluster import equip
from evoprompt_verl.preflight import MANAGER, check_run
from evoprompt_verl.probing import hand_over, handed_over
from evoprompt_verl.settings import PRESETS, SECTION, VerlSettings, defaults

if TYPE_CHECKING:
    from evoprompt_verl.attachment import VerlAttachment
    from evoprompt_verl.host import HostManager, VerlTrainer

_ROLLOUT = "actor_rollout_ref.rollout"
_SINGLE = "evoprompt_single"
_DEFAULT_MANAGER = "verl.trainer.ppo.v1.AgentLoopManagerTQ"


def register() -> None:
    """Add ``evoprompt=PRESET`` to hydra's configuration groups, for each preset."""
    OmegaConf.register_new_resolver(_SINGLE, single, replace=True)
    for preset in PRESETS:
        ConfigStore.instance().store(
            group=SECTION, name=preset, node=node(preset), package="_global_", provider=SECTION
        )


def node(preset: Preset) -> DictConfig:
    """Return the part of veRL's configuration for ``preset``."""
    sampling = {name: f"${{{_ROLLOUT}.{name}}}" for name in ("temperature", "top_p", "top_k")}
    return OmegaConf.create(
        {
            "hydra": {
                "callbacks": {SECTION: {"_target_": f"{__name__}.{Preflight.__qualname__}"}},
                # Resolved before every job. The callbacks of a preset that is swept over are not
                # called, as hydra takes them from what all jobs share.
                "job": {"env_set": {"EVOPROMPT_HYDRA_MODE": f"${{{_SINGLE}:${{hydra.mode}}}}"}},
            },
            "actor_rollout_ref": {
                "rollout": {
                    "agent": {"agent_loop_manager_class": MANAGER},
                    # New instructions are verified through veRL's validation path, which is
                    # greedy by default; they must be sampled as in training.
                    "val_kwargs": {"do_sample": True, **sampling},
                }
            },
            SECTION: OmegaConf.create(defaults(preset), flags={"struct": False}),
        }
    )


def single(mode: RunMode | None) -> str:
    """Return the name of hydra's mode; end the process with code 2 in a sweep."""
    if mode is RunMode.MULTIRUN:
        print(
            "evoprompt: --multirun would train every job of the sweep in the same process and, by "
            "default, into the same trainer.default_local_dir; required: one command a run; start "
            "each with its own overrides",
            file=sys.stderr,
        )
        raise SystemExit(2)
    return RunMode.RUN.name


class Preflight(Callback):
    """Checks the composed configuration before veRL's main function runs, and how that ended."""

    def on_run_start(self, config: DictConfig, **_others: Any) -> None:
        """End the process with exit code 2 and one line if the run cannot work.

        Otherwise pass the environment of this process on to the task runner.
        """
        try:
            hand_over(check_run(config))
            StepFolders(config.trainer).mend()
            equip(config, VerlSettings.of(config).model_dump(mode="json"))
        except EvopromptError as error:
            print(f"evoprompt: {error}", file=sys.stderr)
            # Hydra turns exceptions of callbacks into warnings; this one gets through.
            raise SystemExit(2) from error

    def on_run_end(self, config: DictConfig, **kwargs: Any) -> None:
        """End the process with exit code 1 and a red line if nothing evolved."""
        job: JobReturn = kwargs["job_return"]
        # An error, if the job failed; without the underscore it would be raised.
        return_value = job._return_value
        if isinstance(return_value, NothingEvolvedError):
            reason = return_value.cause if isinstance(return_value, RayTaskError) else return_value
            Console(stderr=True).print(
                f"evoprompt: {reason}", style="bold red", markup=False, soft_wrap=True
            )
            raise SystemExit(1)


class EvolvingAgentLoopManager:
    """Class for veRL's ``agent_loop_manager_class``: builds a manager and an engine for it.

    veRL makes the manager before the trainer's ``fit`` and passes it there; a manager does not know
    its trainer. So ``fit`` is wrapped, once, until it is called with this manager.
    """

    @classmethod
    def create(cls, *, config: DictConfig, **clients: Any) -> HostManager:
        """Return the manager for veRL, bound to an engine when training begins."""
        from verl.utils.import_utils import load_class_from_fqn

        settings = VerlSettings.of(config)
        name = settings.agent_loop_manager_class or _DEFAULT_MANAGER
        manager = load_class_from_fqn(name, "AgentLoopManager").create(config=config, **clients)
        _attach_in_fit(manager, settings)
        return cast("HostManager", manager)


def _attach_in_fit(manager: HostManager, settings: VerlSettings) -> None:
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    original = PPOTrainer.fit

    def unbound(prompts: object) -> None:
        raise AttachError(
            "prompts were handed to the agent loops before an engine was bound, so none would hold "
            "an instruction; required: a V1 PPOTrainer whose fit is given this agent loop manager, "
            "as veRL's main_ppo does; use that entry point, or evoprompt.attach in your own"
        )

    def fit(trainer: VerlTrainer, agent_loop_manager: HostManager) -> None:
        if agent_loop_manager is manager:
            PPOTrainer.fit = original
            del manager.generate_sequences
            resumes = trainer.global_steps > 0
            log = settings.event_log(trainer.config, resumes)
            spending = settings.spending(trainer.config, resumes)
            engine = settings.build_engine(log, spending)
            if misplaced := workplace.misplaced():
                engine.log.notice(engine.step, misplaced)
            # Asks language models again: this process may be on another machine than the command.
            attachment = cast(
                "VerlAttachment", attach(trainer, engine, render=settings.render, adapter="verl")
            )
            spending.join(handed_over())
            attachment.start(manager)
            original(trainer, agent_loop_manager)
            if reason := attachment.report_end():
                checkpoint_dir = trainer.config.trainer.default_local_dir
                raise NothingEvolvedError(
                    f"nothing evolved: {reason}; the checkpoints of the policy are kept in "
                    f"{checkpoint_dir}"
                )
        else:
            original(trainer, agent_loop_manager)

    PPOTrainer.fit = fit
    manager.generate_sequences = unbound  # type: ignore[method-assign]
