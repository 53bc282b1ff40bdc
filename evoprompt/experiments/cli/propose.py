"""``evoprompt propose``: what a language model would propose for a finished run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from evoprompt.experiments.past_failures import Memory
    from evoprompt.roles import ProposalRequest, Proposer
    from evoprompt.types import Proposal

_FAILURES = 4  # that are shown where the proposer does not say how many episodes it reads


def propose(
    parent: Annotated[Path, typer.Option(help="File with the instruction to improve.")],
    failures: Annotated[Path, typer.Option(help="Output of a run, or a checkpoint of it.")],
    lm: Annotated[str, typer.Option(help="Language model, such as openai/gpt-4.1-mini.")],
    proposer: Annotated[str, typer.Option(help="Which proposer to ask.")] = "reflection",
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A setting of it, as lm.api_base; repeatable."
        ),
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Instructions to ask for.")] = 6,
    arm: Annotated[str | None, typer.Option(help="Only failures of this arm.")] = None,
    seed: Annotated[int | None, typer.Option(help="Only failures of this seed.")] = None,
) -> None:
    """Propose instructions from a finished run's failures, without training.

    Prints the analysis, the candidates and what screening says about each.
    """
    from rich.console import Console

    from evoprompt.experiments.instruction import read_instruction
    from evoprompt.experiments.past_failures import Memory
    from evoprompt.experiments.settings import merge, nested
    from evoprompt.plugins import build
    from evoprompt.section import Settings

    text = read_instruction(parent)
    memory = Memory.of(failures, arm, seed)
    settings: Settings = {"name": proposer, "lm": {"model": lm}, "background": False}
    for override in set_ or ():
        settings = merge(settings, nested(override))
    writer = build("proposer", settings)
    episodes = settings.get("episodes")  # of reflection, which has checked it
    request = _request(memory, text, count, episodes if isinstance(episodes, int) else _FAILURES)
    console = Console(markup=False, highlight=False)
    console.print(
        f"{len(request.failures)} failures of {memory.state.parent}", style="dim", soft_wrap=True
    )
    if (cost := writer.estimate(1, count, 1)).calls:
        console.print(f"expected: {cost}", style="dim")
    with console.status(f"asking {lm} ..."):
        proposals = _ask(writer, request)
    _show(console, proposals, request, memory)
    _show_costs(console, writer)


def _ask(writer: Proposer, request: ProposalRequest) -> Sequence[Proposal]:
    from evoprompt.errors import EvopromptError
    from evoprompt.lm import LmError

    try:
        return writer.propose(request)
    except EvopromptError:
        raise
    except Exception as error:  # whatever a plugin or a library raises
        told = " ".join(f"{type(error).__name__}: {error}".split())
        raise LmError(f"the proposer failed ({told}); required: proposals; try another") from error


def _request(memory: Memory, text: str, count: int, episodes: int) -> ProposalRequest:
    from evoprompt.roles import ProposalRequest
    from evoprompt.text import tags
    from evoprompt.types import CandidateStats

    candidate = memory.candidate(text)
    known = {stats.candidate.id: stats for stats in memory.candidate_stats}
    rng = random.Random(0)
    failures = memory.replay.failures(episodes, rng, {candidate.id})
    return ProposalRequest(
        count,
        [known.get(candidate.id, CandidateStats(candidate, 0.0))],
        failures,
        memory.candidate_stats,
        rng,
        required=list(
            dict.fromkeys(f"<{'/' if closes else ''}{name}>" for name, closes in tags(text))
        ),
        successes=memory.replay.successes(failures),
    )


def _show(
    console: Console, proposals: Sequence[Proposal], request: ProposalRequest, memory: Memory
) -> None:
    """Prints each proposal, judged as an offspring of the parent and of those before it."""
    from rich.panel import Panel
    from rich.text import Text

    from evoprompt.rules import ScreeningContext
    from evoprompt.screening import check, clean
    from evoprompt.text import printable

    parent, records = request.parents[0].candidate, memory.replay.records
    living, analyses = [parent.text], set[str]()
    for number, given in enumerate(proposals, 1):
        proposal = clean(given)
        context = ScreeningContext(
            parents=[parent.text],
            required=request.required,
            living=living,
            questions=[record.question.text for record in records],
            answers=[answer for record in records for answer in record.question.answers],
        )
        finding = check(proposal, context)
        analysis = proposal.rationale
        if analysis and analysis not in analyses:
            analyses.add(analysis)
            console.print(Panel(Text(printable(analysis)), title="analysis", title_align="left"))
        result, body, colour = "passes screening", Text(printable(proposal.text)), "green"
        if finding is None:
            living.append(proposal.text)
        else:
            result, colour = f"refused by the rule {finding.rule}", "red"
            body.append(f"\n\n{printable(finding.reason)}", style=colour)
        title = f"candidate {number}: {result}"
        console.print(Panel(body, title=title, title_align="left", border_style=colour))
    console.print(f"{len(living) - 1} of {len(proposals)} candidates pass screening")


def _show_costs(console: Console, writer: Proposer) -> None:
    from evoprompt.text import masked, printable

    spent = writer.metrics()
    calls = spent.get("lm/calls", 0.0)
    tokens = spent.get("lm/input_tokens", 0.0) + spent.get("lm/output_tokens", 0.0)
    cost = f"{spent['lm/usd']:.2g} USD" if "lm/usd" in spent else "price unknown"
    console.print(f"spent: {calls:.0f} calls, {tokens:,.0f} tokens, {cost}", style="dim")
    for notice in writer.notices():
        console.print(printable(masked(notice)), style="yellow")
