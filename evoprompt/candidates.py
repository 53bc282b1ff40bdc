"""What becomes a candidate: proposals pass screening and get an id, or are turned away."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pydantic import JsonValue, TypeAdapter

from evoprompt.events import Event, Notice, Proposed
from evoprompt.replay import ReplayBuffer
from evoprompt.screening import Finding, Rule, ScreeningContext, check, default_rules, take_in
from evoprompt.types import Candidate, Proposal, TextLimits

_REMEMBERED = 64  # texts that were refused for good, not to be tried again soon
_TEXTS = TypeAdapter(list[str])
_COUNT = TypeAdapter(int)
_PAIRS = TypeAdapter(list[tuple[str, str]])


class Screening:
    """Lets a proposal become a candidate, or says why not; nothing is rolled out before.

    Args:
        rules: asked in order; ``default_rules()`` if None.
        replay: questions and answers that must not be copied.
        required: substrings every instruction must keep.
        emit: takes the events.

    Attributes:
        limits: what the policy's tokenizer and context allow.
        born: candidates that ever got an id.
        findings: against the proposals that were screened last.
    """

    def __init__(
        self,
        rules: Sequence[Rule] | None,
        replay: ReplayBuffer,
        required: Sequence[str],
        emit: Callable[[Event], None],
    ) -> None:
        self.limits = TextLimits()
        self.born = 0
        self.findings: list[Finding] = []
        self._rules = default_rules() if rules is None else tuple(rules)
        self._replay = replay
        self._required = tuple(required)
        self._emit = emit
        self._refused: deque[str] = deque(maxlen=_REMEMBERED)
        self._turned_away: list[str] = []

    def new_candidate(self, proposal: Proposal, step: int) -> Candidate:
        """A candidate with the next free id."""
        candidate = Candidate(
            f"c{self.born}",
            dict(proposal.components),
            proposal.parents,
            step,
            proposal.proposer,
            proposal.rationale,
        )
        self.born += 1
        return candidate

    def screen(
        self,
        proposals: Sequence[Proposal],
        living: Sequence[Candidate],
        first: Candidate,
        step: int,
        dead: Sequence[Candidate] = (),
    ) -> list[Candidate]:
        """New candidates of the proposals that pass, in their order.

        Args:
            proposals: what was proposed, the proposer's name filled in.
            living: whom a proposal may descend from, and must differ from.
            first: the parent of a proposal that names none.
            step: the engine step.
            dead: whom a proposal may descend from besides.
        """
        by_id = {candidate.id: candidate for candidate in (*dead, *living)}
        records = self._replay.records
        texts = {candidate.text for candidate in living}
        context = ScreeningContext(
            required=self._required,
            living=texts,
            rejected=[*self._refused, *self._turned_away],
            questions=[record.question.text for record in records],
            answers=[answer for record in records for answer in record.question.answers],
            control_tokens=self.limits.control_tokens,
            max_tokens=self.limits.max_tokens,
            max_prompt_tokens=self.limits.max_prompt_tokens,
            count_tokens=self.limits.count_tokens,
        )
        passed: list[Candidate] = []
        self.findings = []
        for given in proposals:
            taken, finding = take_in(given)
            parents = [by_id[name] for name in taken.parents if name in by_id] or [first]
            if strangers := [name for name in taken.parents if name not in by_id]:
                self._emit(Notice(step, _unknown(strangers, taken.proposer, parents)))
            proposal = replace(taken, parents=tuple(parent.id for parent in parents))
            finding = (
                finding
                or _mismatch(proposal, parents[0])
                or check(
                    proposal,
                    replace(context, parents=[parent.text for parent in parents]),
                    self._rules,
                )
            )
            name = ""
            if finding is None:
                passed.append(self.new_candidate(proposal, step))
                name = passed[-1].id
                texts.add(proposal.text)
            else:
                self.findings.append(finding)
            self._emit(_event(proposal, step, name, finding))
        return passed

    def screen_written(
        self,
        proposal: Proposal,
        living: Sequence[Candidate],
        first: Candidate,
        step: int,
        *,
        override: bool,
    ) -> tuple[Candidate | None, Finding | None]:
        """A candidate that a person wrote, and what screening says against it.

        Args:
            proposal: what was written.
            living: whom it must differ from.
            first: counts as its parent.
            step: the engine step.
            override: whether it becomes a candidate all the same. What cannot be read, or lacks a
                component, never does.
        """
        told: list[Event] = []
        emit, self._emit, before = self._emit, told.append, self.findings
        try:
            passed = self.screen([proposal], living, first, step, [first])
        finally:
            self._emit, self.findings = emit, before
        (said,) = told
        assert isinstance(said, Proposed)
        if passed or not override or said.rule == "components":
            emit(said)
            finding = Finding(said.rule, said.reason) if said.rule else None
            return (passed[0] if passed else None), finding
        found = self.new_candidate(proposal, step)
        emit(replace(said, candidate=found.id))
        return found, Finding(said.rule, said.reason)

    def remember_refused(self, candidate: Candidate) -> None:
        """Turns the text away, should it soon be proposed again."""
        self._refused.append(candidate.text)

    def turn_away(self, candidate: Candidate) -> None:
        """Turns the text away for the rest of the generation: it was tried on a few questions."""
        self._turned_away.append(candidate.text)

    def begin_generation(self) -> None:
        """Lets what earlier generations turned away be tried again, under another policy."""
        self._turned_away.clear()

    def state_dict(self) -> dict[str, JsonValue]:
        """The next id, the texts refused of late, and what was found last."""
        findings: list[JsonValue] = [[one.rule, one.reason] for one in self.findings]
        return {
            "born": self.born,
            "refused": list(self._refused),
            "turned_away": list(self._turned_away),
            "findings": findings,
        }

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        refused = _TEXTS.validate_python(state["refused"])
        findings = _PAIRS.validate_python(state["findings"])
        turned_away = _TEXTS.validate_python(state["turned_away"])
        self.born = _COUNT.validate_python(state["born"])
        self.findings = [Finding(rule, reason) for rule, reason in findings]
        self._refused = deque(refused, maxlen=_REMEMBERED)
        self._turned_away = turned_away


def summarise(findings: Sequence[Finding]) -> str:
    """Why proposals were refused, in a line, the most frequent reason first.

    >>> lost = Finding("protocol", "lost tag </sum>")
    >>> summarise([lost, *[Finding("duplicate", "the text equals a living candidate")] * 2])
    'duplicate (2), lost tag </sum> (1)'
    """
    counts = Counter(map(_label, findings)).most_common()
    return ", ".join(f"{label} ({count})" for label, count in counts)


def _label(finding: Finding) -> str:
    """The rule, or what it says is wrong with tags and placeholders."""
    return finding.reason if finding.rule == "protocol" else finding.rule.replace("_", " ")


def _mismatch(proposal: Proposal, parent: Candidate) -> Finding | None:
    """A finding when ``proposal`` has other components than its parent."""
    if set(proposal.components) == set(parent.components):
        return None
    return Finding(
        "components",
        f"has the components {sorted(proposal.components)}; required: a text for each of "
        f"{sorted(parent.components)}, as in its parent",
    )


def _unknown(names: Sequence[str], proposer: str, parents: Sequence[Candidate]) -> str:
    return (
        f"a proposal of {proposer or 'the proposer'} names the parents {', '.join(names)}, whom "
        f"nobody knows; it counts as a child of {', '.join(parent.id for parent in parents)}; "
        "required: ids from the request's parents or history"
    )


def _event(proposal: Proposal, step: int, candidate: str, finding: Finding | None) -> Proposed:
    return Proposed(
        step,
        candidate,
        proposal.components,
        proposal.parents,
        proposal.proposer,
        proposal.rationale,
        finding.rule if finding else "",
        finding.reason if finding else "",
    )
