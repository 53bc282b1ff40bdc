"""Screening: seeds become candidates as they are, proposals if they pass the rules.

A text gets an id, or is rejected with a reason before any rollout. The rules are in ``rules.py``.
"""

from __future__ import annotations

import re
import reprlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import shorten

from pydantic import Field

from evoprompt.log.events import Event, Proposed
from evoprompt.replay import ReplayBuffer
from evoprompt.rules import CopyIndex, Rule, ScreeningContext, default_rules
from evoprompt.support.calls import calling
from evoprompt.support.credentials import masked
from evoprompt.support.errors import InputError
from evoprompt.support.storage import SavedRecord
from evoprompt.support.text import format_error
from evoprompt.types import INSTRUCTION, Candidate, Proposal, TextLimits

LONGEST = 65_536
"""Characters that the components of a proposal may have together; no rule sees a longer one."""
SHOWN = 2_000
"""Characters kept of a text that is too long, for people to read."""
_RATIONALE = 16_384  # characters kept of a rationale
_BEGINNING = 80  # characters by which the writer of a refused text knows it
_REMEMBERED = 64  # texts that were refused for good, not to be tried again soon


@dataclass(frozen=True, slots=True)
class Rejection:
    """A refusal: the rule that made it, its reason in words, and how the text begins."""

    rule: str
    reason: str
    begins: str = ""

    def __str__(self) -> str:
        return f"{self.rule}: {self.reason}" + (f", in {self.begins!r}" if self.begins else "")


def check(
    proposal: Proposal, context: ScreeningContext, rules: Sequence[Rule] | None = None
) -> Rejection | None:
    """Return the first finding about a proposal; None if the proposal is accepted.

    An exception in a rule counts as a finding, ``SystemExit`` too; a rule that does not return is
    named.

    Args:
        proposal: a proposal that :func:`clean` returned.
        context: parents, seeds and questions to compare the proposal with.
        rules: rules in the order of their application; :func:`default_rules` if not given.

    >>> check(Proposal.of("   "), ScreeningContext())
    Rejection(rule='empty', reason='the text holds no words', begins='')
    """
    size = sum(map(len, proposal.components.values()))
    if size > LONGEST:
        return Rejection("too_long", f"has {size:,} characters; required: at most {LONGEST:,}")
    for rule in default_rules() if rules is None else rules:
        try:
            with calling("rule", rule):
                reason = rule(proposal, context)
        except Exception as error:  # what a rule cannot judge must not end a training run
            reason = f"the rule failed: {format_error(error)}"
        if reason is not None:
            return Rejection(getattr(rule, "__name__", type(rule).__name__), reason)
    return None


def clean(proposal: Proposal) -> Proposal:
    """Return a proposal that can be written to any file.

    Texts get Unix line ends; lone surrogates become U+FFFD, which the rules reject. Credentials in
    a rationale are masked.
    """
    texts = {_clean(name): _clean(text) for name, text in proposal.components.items()}
    rationale = masked(_shortened(_clean(proposal.rationale), _RATIONALE))
    return Proposal(
        texts, tuple(map(_clean, proposal.parents)), rationale, _clean(proposal.proposer)
    )


def _clean(text: str) -> str:
    text = re.sub("\r\n?|[\x0b\x0c\x85\u2028\u2029]", "\n", text)
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]} [... {len(text):,} characters]"


Seed = str | Mapping[str, str] | Proposal
"""A text, a text per component, or a proposal whose rationale says where it comes from."""


def usable_seeds(seeds: Sequence[Seed], limit: int, required: Sequence[str]) -> list[Proposal]:
    """Return one proposal per seed, for the first candidates.

    Raises:
        InputError: there is no seed, there are more than ``limit``, two are equal, one is empty,
            lacks a required tag, has half of a character, or is not a text.
    """
    if isinstance(seeds, str | bytes) or not isinstance(seeds, Sequence) or not seeds:
        raise InputError(
            f"the seed instructions are {reprlib.repr(seeds)}; required: a list of at least one "
            'text; write ["..."]'
        )
    if len(seeds) > limit:
        raise InputError(
            f"{len(seeds)} seed instructions were given; required: at most population_size "
            f"{limit}; drop some or raise it"
        )
    usable: dict[str, Proposal] = {}
    for seed in seeds:
        origin = seed.rationale if isinstance(seed, Proposal) else ""
        proposal = Proposal(_components(seed), rationale=origin, proposer="seed")
        text = proposal.text
        missing = [tag for tag in required if tag not in text]
        is_encodable = text == text.encode(errors="replace").decode()
        if missing or not text.strip() or text in usable or not is_encodable:
            fault = f"lacks {', '.join(missing)}" if missing else "is empty or given twice"
            if not is_encodable:
                fault = "has half of a character, which no file or model can take"
            raise InputError(
                f"the seed instruction {text!r} {fault}; required: different texts "
                f"that hold {', '.join(required) or 'something'}; change the seed"
            )
        usable[text] = proposal
    return list(usable.values())


def _components(seed: object) -> dict[str, str]:
    texts = seed.components if isinstance(seed, Proposal) else seed
    components = {INSTRUCTION: texts} if isinstance(texts, str) else texts
    if isinstance(components, Mapping) and all(
        isinstance(part, str) for pair in components.items() for part in pair
    ):
        return dict(components)
    raise InputError(
        f"the seed instruction {reprlib.repr(seed)} is of type {type(seed).__name__}; required: "
        'a text, or a mapping of components to texts; write "..." or {"instruction": "..."}'
    )


class _ScreeningState(SavedRecord):
    """Screening state that a resumed run needs.

    Attributes:
        born: candidates that ever got an id.
        declined: texts that the user refused, the latest last.
        rejected: texts that verification rejected in this generation.
        findings: against the proposals that were screened last.
    """

    born: int = 0
    declined: list[str] = Field(default_factory=list)
    rejected: list[str] = Field(default_factory=list)
    findings: list[Rejection] = Field(default_factory=list)


class Screening:
    """Screening of proposals before any rollout: a proposal becomes a candidate or is rejected.

    Args:
        rules: rules in the order of their application; ``default_rules()`` if None.
        replay: questions and answers that must not be copied.
        required: substrings every instruction must keep.

    Attributes:
        limits: limits of the policy's tokenizer and context.
        trainset: training questions that are known, used or not.
        known: candidates and rejected texts so far.
        events: events of the last call.
    """

    def __init__(
        self, rules: Sequence[Rule] | None, replay: ReplayBuffer, required: Sequence[str]
    ) -> None:
        self.limits = TextLimits()
        self.trainset: Sequence[str] = ()
        self.known = _ScreeningState()
        self._seeds: tuple[str, ...] = ()
        self.events: list[Event] = []
        self.replay = replay
        self.required = tuple(required)
        self._rules = default_rules() if rules is None else tuple(rules)
        self._index = CopyIndex()

    @property
    def findings(self) -> Sequence[Rejection]:
        """Against the proposals that were screened last."""
        return self.known.findings

    def remaining_tokens(self) -> int:
        """Return the most tokens that a proposal may have beside the longest known question."""
        limits = self.limits
        if limits.max_prompt_tokens is None:
            return limits.max_tokens
        lengths = (limits.count_tokens(record.question.text) for record in self.replay.records)
        room = limits.max_prompt_tokens - max(lengths, default=0)
        return max(min(limits.max_tokens, room), 1)

    def seed(self, proposal: Proposal) -> Candidate:
        """Return a first candidate; the host may read its tags and placeholders."""
        self._seeds += (proposal.text,)
        return self.new_candidate(proposal, 0)

    def new_candidate(self, proposal: Proposal, step: int) -> Candidate:
        """Return a candidate with the next free id."""
        candidate = Candidate(
            f"c{self.known.born}",
            dict(proposal.components),
            proposal.parents,
            step,
            proposal.proposer,
            proposal.rationale,
        )
        self.known.born += 1
        return candidate

    def screen(
        self,
        proposals: Sequence[Proposal],
        members: Sequence[Candidate],
        first: Candidate,
        step: int,
        dead: Sequence[Candidate] = (),
    ) -> list[Candidate]:
        """Return new candidates from the accepted proposals, in their order.

        Args:
            proposals: the proposals, with the names of their proposers.
            members: members, from which a proposal may descend and must differ.
            first: the parent of a proposal that names none.
            step: the engine step.
            dead: pruned candidates, from which a proposal may descend as well.
        """
        by_id = {candidate.id: candidate for candidate in (*dead, *members)}
        context = self._context()
        texts = {candidate.text for candidate in members}
        passed: list[Candidate] = []
        self.events, self.known.findings = [], []
        for draft in proposals:
            cleaned_draft = clean(draft)
            parents = [by_id[name] for name in cleaned_draft.parents if name in by_id] or [first]
            proposal = replace(cleaned_draft, parents=tuple(parent.id for parent in parents))
            parent_context = replace(
                context, parents=[parent.text for parent in parents], members=texts
            )
            finding = (
                _unknown(cleaned_draft, by_id)
                or _mismatch(proposal, parents[0])
                or check(proposal, parent_context, self._rules)
            )
            name = ""
            if finding is None:
                passed.append(self.new_candidate(proposal, step))
                name = passed[-1].id
                texts.add(proposal.text)
            else:
                beginning = shorten(proposal.text, _BEGINNING, placeholder=" [...]")
                self.known.findings.append(replace(finding, begins=beginning))
            self.events.append(_event(proposal, step, name, finding))
        return passed

    def _context(self) -> ScreeningContext:
        remembered = [record.question for record in self.replay.records]
        questions = [question.text for question in remembered]
        answers = [answer for question in remembered for answer in question.answers]
        self._index.update(questions, answers)
        return ScreeningContext(
            required=self.required,
            rejected=[*self.known.declined, *self.known.rejected],
            questions=questions,
            answers=answers,
            limits=self.limits,
            seeds=self._seeds,
            trainset=self.trainset,
            index=self._index,
        )

    def screen_written(
        self,
        proposal: Proposal,
        members: Sequence[Candidate],
        first: Candidate,
        step: int,
        *,
        override: bool,
    ) -> tuple[Candidate | None, Rejection | None]:
        """Return a candidate written by a person, and the findings of screening.

        Args:
            proposal: the text of the person.
            members: members, from which the text must differ.
            first: candidate that counts as its parent.
            step: the engine step.
            override: whether to accept the text in spite of findings. A text that cannot be read,
                or lacks a component, is never accepted.
        """
        before = self.known.findings
        passed = self.screen([proposal], members, first, step, [first])
        finding = next(iter(self.findings), None)
        self.known.findings = before  # those are the proposer's to read
        if finding is not None and override and finding.rule != "components":
            passed = [self.new_candidate(proposal, step)]
            self.events = [_event(proposal, step, passed[0].id, finding)]
        return next(iter(passed), None), finding

    def remember_rejected(self, candidate: Candidate) -> None:
        """Remember a rejected text, so that it is rejected if it is proposed again soon."""
        self.known.declined = [*self.known.declined, candidate.text][-_REMEMBERED:]

    def reject_for_generation(self, candidate: Candidate) -> None:
        """Reject a text until the next generation begins."""
        self.known.rejected.append(candidate.text)

    def begin_generation(self) -> None:
        """Allow texts that earlier generations rejected, since the policy has changed."""
        self.known.rejected.clear()


def summarise(findings: Sequence[Rejection]) -> str:
    """Return the reasons of rejections in a line, the most frequent first.

    >>> lost = Rejection("protocol", "lost tag </sum>")
    >>> summarise([lost, *[Rejection("duplicate", "the text equals an active candidate")] * 2])
    'duplicate (2), lost tag </sum> (1)'
    """
    counts = Counter(map(_label, findings)).most_common()
    return ", ".join(f"{label} ({count})" for label, count in counts)


def _label(finding: Rejection) -> str:
    """Return the rule of a finding, or its reason if it is about tags and placeholders."""
    return finding.reason if finding.rule == "protocol" else finding.rule.replace("_", " ")


def _mismatch(proposal: Proposal, parent: Candidate) -> Rejection | None:
    """Return a finding if ``proposal`` has other components than its parent."""
    if set(proposal.components) == set(parent.components):
        return None
    return Rejection(
        "components",
        f"has the components {sorted(proposal.components)}; required: a text for each of "
        f"{sorted(parent.components)}, as in its parent",
    )


def _unknown(proposal: Proposal, known_ids: Collection[str]) -> Rejection | None:
    """Return a finding if ``proposal`` names an unknown parent."""
    strangers = [name for name in proposal.parents if name not in known_ids]
    if not strangers:
        return None
    return Rejection(
        "parents",
        f"names the unknown parents {', '.join(strangers)}; required: ids from the request's "
        "parents or history",
    )


def _event(proposal: Proposal, step: int, candidate: str, finding: Rejection | None) -> Proposed:
    return Proposed(
        step,
        candidate,
        {
            name: _shortened(text, SHOWN) if len(text) > LONGEST else text
            for name, text in proposal.components.items()
        },
        proposal.parents,
        proposal.proposer,
        proposal.rationale,
        finding.rule if finding else "",
        finding.reason if finding else "",
    )
