"""Trials as jobs of Slurm, by submitit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, Field

from evoprompt.components import BuildContext
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.launchers.base import Done, Job, Launcher, Lost, require_extra
from evoprompt.experiments.launchers.node import Errand
from evoprompt.experiments.trial import End, TrialFailure
from evoprompt.support.errors import InputError
from evoprompt.support.text import format_error

if TYPE_CHECKING:
    import submitit


class SlurmSettings(BaseModel, extra="forbid"):
    """Settings of the launcher ``slurm``."""

    cluster: Literal["slurm", "local"] = Field(
        default="slurm", description="local: the same job files in processes of this machine"
    )
    partition: str | None = Field(default=None, description="by default the site's")
    minutes: int = Field(default=1440, ge=1, description="time limit of one job")
    cpus: int = Field(default=1, ge=1, description="CPUs of each trial")
    gpus: int = Field(default=0, ge=0, description="GPUs of each trial")
    memory_gb: int | None = Field(default=None, ge=1, description="by default the site's")
    setup: list[str] = Field(default=[], description="shell commands before each trial")
    options: dict[str, str | int] = Field(default={}, description="of sbatch, by name")
    retries: int = Field(default=3, ge=0, description="submissions of a trial that was lost")


@dataclass(frozen=True, slots=True)
class _Task:
    """Callable that submitit calls in the job."""

    errand: Errand

    def __call__(self) -> End | None:
        return self.errand.carry_out()

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """Return the submission for Slurm's queue when the time is up or the job is preempted."""
        import submitit

        return submitit.helpers.DelayedSubmission(self)


class Slurm(Launcher):
    """Launcher of jobs of Slurm, by submitit."""

    Settings = SlurmSettings
    elsewhere = True
    max_parallel: int | None = None

    def __init__(self, settings: SlurmSettings) -> None:
        self.retries = settings.retries
        self._settings = settings

    @classmethod
    def build(cls, settings: SlurmSettings, context: BuildContext) -> Slurm:
        """Return the launcher for jobs by ``settings``.

        Raises:
            InputError: submitit is not installed.
        """
        require_extra("submitit", "slurm")
        return cls(settings)

    def open(self) -> Sequence[str]:
        """Return no notices.

        Raises:
            InputError: there is no Slurm on this machine.
        """
        import submitit

        if self._settings.cluster == "slurm" and submitit.AutoExecutor.which() != "slurm":
            raise InputError(
                "the launcher is slurm, and this machine has no srun; required: one from which "
                "jobs are submitted; log in to it, or use --launcher local"
            )
        return ()

    def start(self, directory: RunDirectory, trial: TrialId, at_once: int) -> SlurmJob:
        """Submit a new job; its script and its output are in the run's folder ``slurm``.

        Raises:
            InputError: Slurm refuses the job.
        """
        return SlurmJob(directory, trial, self._settings)


class SlurmJob(Job):
    """Trial that is a job of Slurm."""

    def __init__(self, directory: RunDirectory, trial: TrialId, settings: SlurmSettings) -> None:
        import submitit

        super().__init__(directory, trial, Path.cwd())
        self._stopped = False
        files = directory.root / "slurm"
        executor = submitit.AutoExecutor(files, cluster=settings.cluster)
        executor.update_parameters(
            name=f"evoprompt-{trial.arm}-{trial.seed}",
            timeout_min=settings.minutes,
            cpus_per_task=settings.cpus,
            gpus_per_node=settings.gpus,
            mem_gb=settings.memory_gb,
            slurm_partition=settings.partition,
            slurm_setup=settings.setup,
            slurm_additional_parameters=settings.options,
        )
        try:
            with submitit.helpers.clean_env():  # of the job in which this command may run
                self._job = executor.submit(_Task(self.errand))
        except submitit.core.utils.FailedJobError as refusal:
            raise InputError(
                f"Slurm refuses the job of {trial} ({format_error(refusal)}); "
                "required: settings that it takes; change launcher"
            ) from refusal

    def _end(self) -> Done | Lost | None:
        from submitit.core.utils import FailedJobError, UncompletedJobError

        job = self._job
        if not job.done():
            return None
        try:
            return Done(job.result())
        except UncompletedJobError:
            if self._stopped:
                return Done(None)
            return Lost(f"job {job.job_id} ended as {job.state}; see {job.paths.stderr}")
        except FailedJobError:
            return Done(TrialFailure(f"its job failed; see {job.paths.stderr}"))

    def _cancel(self, force: bool) -> None:
        self._stopped = self._stopped or not force
        self._job.cancel(check=False)
