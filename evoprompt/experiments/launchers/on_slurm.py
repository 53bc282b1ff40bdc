"""Trials as jobs of Slurm, by submitit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import submitit
from submitit.core.utils import FailedJobError, UncompletedJobError

from evoprompt.errors import InputError
from evoprompt.events import Event, Notice
from evoprompt.experiments.launchers.base import Done, Launcher, Lost, Work
from evoprompt.experiments.launchers.components import SlurmSettings
from evoprompt.experiments.launchers.node import Errand, RemoteJob, SharedFolder, versions
from evoprompt.experiments.trial import End, Failure
from evoprompt.text import format_error

_JOBS = {"slurm": submitit.SlurmJob, "local": submitit.LocalJob}
_ALIVE = ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "REQUEUED", "REQUEUE_HOLD")


@dataclass(frozen=True, slots=True)
class _Task:
    """What submitit calls in the job."""

    errand: Errand

    def __call__(self) -> End | None:
        return self.errand.carry_out()

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """What Slurm puts back into its queue when the time is up or the job is preempted."""
        return submitit.helpers.DelayedSubmission(self)


class SlurmLauncher(Launcher):
    """Submits a job a trial.

    Args:
        settings: what a trial takes.
    """

    elsewhere = True
    most: int | None = None

    def __init__(self, settings: SlurmSettings) -> None:
        self.retries = settings.retries
        self._settings = settings

    def open(self) -> Sequence[str]:
        """Nothing to know.

        Raises:
            InputError: there is no Slurm here.
        """
        if self._settings.cluster == "slurm" and submitit.AutoExecutor.which() != "slurm":
            raise InputError(
                "the launcher is slurm, and this machine has no srun; required: one from which "
                "jobs are submitted; log in to it, or use --launcher local"
            )
        return ()

    def start(self, work: Work) -> SlurmJob:
        """A new job, or the one that an earlier command has submitted and that goes on.

        Its script and what it prints are in the run's folder ``slurm``.

        Raises:
            InputError: the settings hold credentials, or Slurm refuses the job.
        """
        withheld = work.directory.config.shown().get("withheld")
        if withheld:
            raise InputError(
                f"the settings {withheld} hold credentials, which Slurm's jobs would be given in a "
                "file; required: credentials in environment variables; set them before the run"
            )
        settings = self._settings
        files = work.directory.root / "slurm"
        error = work.directory.trial(work.trial).error
        for number, left in SharedFolder.left_behind(work).items():
            job = _JOBS[settings.cluster](files, number)
            if job.state in _ALIVE:
                again = Notice(0, f"goes on as job {number}, submitted before")
                return SlurmJob(job, left, error, again)
        executor = submitit.AutoExecutor(files, cluster=settings.cluster)
        executor.update_parameters(
            name=f"evoprompt-{work.trial.arm}-{work.trial.seed}",
            timeout_min=settings.minutes,
            cpus_per_task=settings.cpus,
            gpus_per_node=settings.gpus,
            mem_gb=settings.memory_gb,
            slurm_partition=settings.partition,
            slurm_setup=settings.setup,
            slurm_additional_parameters=settings.options,
        )
        folder = SharedFolder.new(work)
        try:
            with submitit.helpers.clean_env():  # of the job in which this command may run
                job = executor.submit(_Task(Errand(work, folder.path, Path.cwd(), versions())))
        except FailedJobError as refusal:
            raise InputError(
                f"Slurm refuses the job of {work.trial} ({format_error(refusal)}); "
                "required: settings that "
                "it takes; change launcher"
            ) from refusal
        folder.note(job.job_id)
        return SlurmJob(job, folder, error)

    def close(self) -> None:
        """Jobs need nobody here."""


class SlurmJob(RemoteJob):
    """A trial that is a job of Slurm; ``error`` is the file that says why it failed."""

    def __init__(
        self, job: submitit.Job[End | None], folder: SharedFolder, error: Path, *first: Event
    ) -> None:
        super().__init__(folder, *first)
        self._job, self._error = job, error
        self._stopped = False

    def _end(self) -> Done | Lost | None:
        job = self._job
        if not job.done():
            return None
        try:
            return Done(job.result())
        except UncompletedJobError:
            if failure := self._folder.failure(self._error):  # with no room for a result, perhaps
                return Done(Failure(failure))
            if self._stopped:
                return Done(None)
            return Lost(f"job {job.job_id} ended as {job.state}; see {job.paths.stderr}")
        except FailedJobError:
            return Done(Failure(f"its job failed; see {job.paths.stderr}"))

    def _cancel(self, force: bool) -> None:
        self._stopped = self._stopped or not force
        self._job.cancel(check=False)
