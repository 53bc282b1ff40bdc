"""A trial of the host ``frozen``: the instruction is optimized, and then tested as all others."""

from __future__ import annotations

from collections.abc import Callable

from evoprompt.agents.tasks import Task, Trial
from evoprompt.components import BuildContext
from evoprompt.experiments.config import PROPOSER_SYNTAX
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.hosts.frozen import FrozenHost, FrozenModel, tested
from evoprompt.experiments.summary import Clock, SeedSummary
from evoprompt.experiments.trial_parts import host_for, seeds_of, start_of, write_result
from evoprompt.hosting.section import EngineSection
from evoprompt.lm.budget import SpendTracker
from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import Evaluated, Event, Notice
from evoprompt.optimizer.data import items_of
from evoprompt.optimizer.folder import SPENDING
from evoprompt.optimizer.options import OptimizeOptions
from evoprompt.optimizer.outcome import INTERRUPTED
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
    told: Trial,
    listener: Callable[[Event], None],
    stopping: Callable[[], bool],
) -> SeedSummary | None:
    """Optimizes, tests and writes ``result.json``; every rollout is journaled as it is made.

    Args:
        run: the run it belongs to.
        trial: which arm and seed.
        task: what it does.
        told: budget and seed; a trial to be resumed reads its journal.
        listener: sees every event.
        stopping: asked before rollouts whether to stop.

    Returns:
        The result; None when it was stopped before the end, to be resumed.
    """
    config, files = run.config, run.trial(trial)
    host = host_for(task, config.host_of(trial.arm))
    assert isinstance(host, FrozenHost)
    chosen = host.settings
    section = config.engine_of(trial.arm)
    clock = Clock(files.seconds)
    files.events.unlink(missing_ok=True)  # they happen again, up to where it was stopped
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
    seconds = chosen.seconds  # of the trial, whose journal an earlier process may have begun
    options = OptimizeOptions(
        seed=told.seed,
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
    questions = tested(task, told.budget)
    budget = told.budget - len(questions)
    found = solve(problem, proposer, budget, options, log, files.journal, stopping)
    spent_seconds = clock.save()
    if found.stopped == INTERRUPTED:
        return None
    best = found.best
    result, played = model.test(best.components, questions)
    if result.failures.failed:
        log.append(Notice(found.iterations, f"of the test questions {result.failures}"))
    if played < len(questions):
        cut = f"the test has {played} of {len(questions)} questions, as the budget of the model"
        log.append(Notice(found.iterations, f"{cut} ended; raise host.budget to test on all"))
    spent = found.rollouts + played
    metrics = {**result.metrics, task.main_metric.name: result.value}
    kinds = dict(result.by_kind)
    log.append(
        Evaluated(found.iterations, "test", best.id, spent, metrics, kinds, task.main_metric)
    )
    model.save(files.policy)
    return write_result(run, trial, task.main_metric, result, spent, spent_seconds, best.components)


def proposer_of(section: EngineSection, context: BuildContext) -> Proposer:
    """The proposer of an engine's section, in this thread: there is no training to go on."""
    if section.proposer is None:
        return NoProposer()
    own = {"background": False} if "lm" in section.proposer else {}
    found: Proposer = build("proposer", {**own, **section.proposer}, context)
    return found


def _unused(section: EngineSection) -> list[str]:
    """Settings that are not the usual ones and decide nothing here."""
    used = {"proposer", "population_size"}  # as many of seeds_from are taken as have places
    given, usual = section.model_dump(), EngineSection().model_dump()
    return [name for name in given if name not in used and given[name] != usual[name]]
