"""Trial of the host ``frozen``: the instruction is optimized, and then tested like any other."""

from __future__ import annotations

from collections.abc import Callable

from evoprompt.agents.tasks import Task, Trial
from evoprompt.components import BuildContext
from evoprompt.experiments.config import PROPOSER_SYNTAX
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.hosts.frozen import ENGINE_SETTINGS, FrozenHost, FrozenModel, tested
from evoprompt.experiments.summary import Clock, SeedSummary
from evoprompt.experiments.trial_parts import (
    evaluation_event,
    host_for,
    seeds_of,
    start_of,
    write_result,
)
from evoprompt.hosting.section import EngineSection
from evoprompt.lm.budget import SpendTracker
from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import Event, Notice
from evoprompt.optimizer.data import items_of
from evoprompt.optimizer.folder import SPENDING
from evoprompt.optimizer.options import OptimizeOptions
from evoprompt.optimizer.outcome import INTERRUPTED, StoppedError
from evoprompt.optimizer.problem import Problem, solve
from evoprompt.optimizer.runner import Runner
from evoprompt.plugins import build, plugins
from evoprompt.proposers.combinators import NoProposer
from evoprompt.roles import Proposer
from evoprompt.screening import usable_seeds


def run_frozen(
    run: RunDirectory,
    trial: TrialId,
    task: Task,
    trial_settings: Trial,
    listener: Callable[[Event], None],
    stopping: Callable[[], bool],
) -> SeedSummary | None:
    """Optimize, test and write ``result.json``; write every rollout to the journal when it is made.

    Args:
        run: the run it belongs to.
        trial: arm and seed.
        task: the task of the model.
        trial_settings: budget and seed; a trial that is resumed reads its journal.
        listener: sees every event.
        stopping: returns whether to stop; called all the time.

    Returns:
        The result; None if it was stopped before the end and can be resumed.
    """
    config, files = run.config, run.trial(trial)
    host = host_for(task, config.host_of(trial.arm))
    assert isinstance(host, FrozenHost)
    chosen = host.settings
    section = config.engine_of(trial.arm)
    clock = Clock(files.seconds)
    files.events.unlink(missing_ok=True)  # the events are written again, up to where it was stopped
    log = EventLog(files.events)
    log.subscribe(plugins().notify)
    log.subscribe(listener)
    spending = SpendTracker(run.root / SPENDING)
    model = FrozenModel(chosen, task, spending)
    seeds = seeds_of(config, trial, task, section, start_of(run, trial))
    if unused := _unused(section):
        ignored = f"settings of engine that only a training uses: {', '.join(unused)}"
        log.append(Notice(0, ignored))
    agent = FrozenModel(chosen.before_test(), task, spending).agent
    seconds = chosen.seconds  # of the trial; an earlier process may have begun its journal
    options = OptimizeOptions(
        seed=trial_settings.seed,
        seconds=None if seconds is None else max(seconds - clock.earlier, 0.0),
        proposals=chosen.proposals,
        # Without a proposer the seed is measured, and nothing else.
        patience=0 if section.proposer is None else chosen.patience,
        perfect=chosen.perfect,
        required=tuple(task.required),
        max_concurrency=chosen.max_concurrency,
    )
    problem = Problem(
        usable_seeds(seeds, len(seeds), task.required),
        items_of(agent.train, "train"),
        items_of(agent.validation, "validation"),
        Runner(agent, agent.metric, False, options),
    )
    spending = SpendTracker(run.spending)
    context = BuildContext(task, files.root, spending, syntax=PROPOSER_SYNTAX)
    proposer = proposer_of(section, context)
    questions = tested(task, trial_settings.budget)
    budget = trial_settings.budget - len(questions)
    try:
        outcome = solve(problem, proposer, budget, options, log, files.journal, stopping)
    except StoppedError:
        clock.save()
        return None
    spent_seconds = clock.save()
    if outcome.stopped == INTERRUPTED:
        return None
    best = outcome.best
    result, played = model.test(best.components, questions)
    if result.failures.failed:
        log.append(Notice(outcome.iterations, f"of the test questions {result.failures}"))
    if played < len(questions):
        cut = f"the test has {played} of {len(questions)} questions, as the budget of the model"
        log.append(Notice(outcome.iterations, f"{cut} ended; raise host.budget to test on all"))
    total_rollouts = outcome.rollouts + played
    log.append(
        evaluation_event(outcome.iterations, "test", best, total_rollouts, result, task.main_metric)
    )
    model.save(files.policy)
    return write_result(
        run, trial, task.main_metric, result, total_rollouts, spent_seconds, best.components
    )


def proposer_of(section: EngineSection, context: BuildContext) -> Proposer:
    """Return the proposer of an engine's section, in this thread: no training goes on meanwhile."""
    if section.proposer is None:
        return NoProposer()
    defaults = {"background": False} if "lm" in section.proposer else {}
    proposer: Proposer = build("proposer", {**defaults, **section.proposer}, context)
    return proposer


def _unused(section: EngineSection) -> list[str]:
    """Return the settings that differ from their defaults and have no effect here."""
    values, usual = section.model_dump(), EngineSection().model_dump()
    return [name for name in values if name not in ENGINE_SETTINGS and values[name] != usual[name]]
