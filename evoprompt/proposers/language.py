"""What all proposers that ask a language model have in common."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import JsonValue

from evoprompt.lm import Answer, Call, Estimate, LanguageModel, LmError
from evoprompt.proposers.situation import length_of, refused_of, setting_of, tried_of
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.types import TOOL, Candidate, Proposal

CANDIDATES = "candidates"
"""Output field that holds the new instructions, a list of texts."""

ANALYSIS = "analysis"
"""Output field that holds the reason, if the wording asks for one."""

AROUND = {
    "setting": "what the agent reads around it, what it can call, and what it is scored by",
    "refused": "why instructions written the last time could not be tried",
}
"""Input fields that say where an instruction stands, for whoever writes one."""

_ABOUT_A_TOOL = (
    "In what follows, an instruction is the description of the tool `{tool}`: the agent reads it "
    "beside its task, and decides by it when to call the tool and with which arguments. Describe "
    "what the tool really does, as far as the texts you are given show it."
)
_TOKENS_A_WORD = 1.4
_OVERHEAD = 1500  # tokens of DSPy's format, of a wording and of what is told around it
_USUAL_WORDS = 200  # of an instruction, where no limit is set


@dataclass(frozen=True, slots=True)
class Wording:
    """What is asked of the model, in words.

    Attributes:
        task: what to do.
        inputs: description of each input field.
        outputs: type and description of each output field.
    """

    task: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, tuple[type[str] | type[list[str]], str]]

    def about(self, component: str) -> Wording:
        """The same, where a description of a tool is written instead of an instruction."""
        if not component.startswith(TOOL):
            return self
        tool = component.removeprefix(TOOL)
        return replace(self, task=f"{_ABOUT_A_TOOL.format(tool=tool)} {self.task}")

    def program(self) -> Any:
        """A ``dspy.Predict`` of this wording."""
        import dspy

        fields: dict[str, tuple[type, Any]] = {
            name: (str, dspy.InputField(desc=description))
            for name, description in self.inputs.items()
        }
        for name, (kind, description) in self.outputs.items():
            fields[name] = (kind, dspy.OutputField(desc=description))
        return dspy.Predict(dspy.Signature(fields, self.task))


@dataclass(frozen=True, slots=True)
class Commission:
    """One call, and what its answer is for.

    Attributes:
        wording: what is asked.
        inputs: the fields that differ from call to call.
        parents: candidates the texts will descend from; the first lends the other components.
        component: the component that is rewritten.
        wanted: most texts to take from the answer.
        program: module to run instead of the wording's own, such as a compiled one.
    """

    wording: Wording
    inputs: Mapping[str, str]
    parents: tuple[Candidate, ...]
    component: str
    wanted: int
    program: Any = field(default=None, compare=False)


class LmProposer(Proposer, ABC):
    """A proposer that asks a language model; a subclass says what to ask.

    Args:
        language: answers the questions.
        max_words: longest instruction to ask for, in words; None for what the policy has room for.
    """

    name: str
    """How proposals are signed, and the proposer is named in configurations."""

    def __init__(self, language: LanguageModel, max_words: int | None = None) -> None:
        self.language = language
        self.max_words = max_words
        self._notices: list[str] = []
        self._lock = threading.Lock()

    @abstractmethod
    def plan(self, request: ProposalRequest) -> Sequence[Commission]:
        """The calls to make for ``request``."""

    @abstractmethod
    def calls_for(self, count: int, parents: int) -> int:
        """Number of calls that a request for ``count`` proposals from ``parents`` parents makes."""

    def input_tokens(self, count: int) -> int:
        """About how many tokens the inputs of one call have."""
        return _OVERHEAD + round(self._usual_words * _TOKENS_A_WORD)

    @property
    def _usual_words(self) -> int:
        """Words of an instruction, for an estimate."""
        return self.max_words or _USUAL_WORDS

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """What the model wrote, at most ``request.count`` proposals.

        Raises:
            LmError: no call brought a single text.
        """
        commissions = self.plan(request)
        calls = [self._call(commission, request) for commission in commissions]
        proposals: list[Proposal] = []
        errors: list[LmError] = []
        for commission, answer in zip(commissions, self.language.ask(calls), strict=True):
            if isinstance(answer, LmError):
                errors.append(answer)
                continue
            found = self._proposals(commission, answer)
            proposals += found
            if not found:
                errors.append(LmError(_nothing(answer, self.language.max_tokens)))
        if errors and not proposals:
            raise errors[0]
        with self._lock:
            self._notices += [f"{self.name}: one call brought nothing: {e}" for e in errors]
        return proposals[: request.count]

    def check(self, probe: bool = False) -> None:
        """Returns if the language model can be asked; see :meth:`LanguageModel.check`."""
        self.language.check(probe)

    def _call(self, commission: Commission, request: ProposalRequest) -> Call:
        candidate = commission.parents[0]
        written = candidate.components[commission.component]
        # A required string that another component holds is not this component's business.
        required = [r for r in request.required if r in written or r not in candidate.text]
        common = {
            "required": "\n".join(required) or "(none)",
            "count": str(commission.wanted),
            "length": length_of(request, candidate, commission.component, self.max_words),
            "setting": setting_of(request, candidate, commission.component),
            "tried": tried_of(request, candidate, commission.component),
            "refused": refused_of(request),
        }
        inputs = {name: {**common, **commission.inputs}[name] for name in commission.wording.inputs}
        if commission.program is not None:
            return Call(lambda: commission.program, inputs)
        return Call(commission.wording.about(commission.component).program, inputs)

    def _proposals(self, commission: Commission, answer: Answer) -> list[Proposal]:
        texts = answer.fields.get(CANDIDATES)
        whole = list(texts) if isinstance(texts, list) else []
        if answer.truncated:
            whole = whole[:-1]  # DSPy repairs a list that was cut, and the last text with it
        return [
            Proposal(
                {**commission.parents[0].components, commission.component: text.strip()},
                tuple(dict.fromkeys(parent.id for parent in commission.parents)),
                str(answer.fields.get(ANALYSIS, "")),
                self.name,
            )
            for text in whole[: commission.wanted]
            if isinstance(text, str)
        ]

    def notices(self) -> Sequence[str]:
        """Calls that failed while others succeeded, since the last time."""
        with self._lock:
            notices, self._notices = self._notices, []
        return notices

    def metrics(self) -> Mapping[str, float]:
        """Calls, tokens and USD spent by the language model."""
        return self.language.metrics()

    def estimate(self, generations: int, count: int, parents: int) -> Estimate:
        """What ``generations`` requests for ``count`` proposals will cost."""
        calls = max(self.calls_for(count, parents), 1)
        texts = -(-count // calls)
        output = round(
            (texts + 1) * self._usual_words * _TOKENS_A_WORD
        )  # one more for the analysis
        output = min(output, self.language.max_tokens)
        return self.language.estimate(generations * calls, self.input_tokens(count), output)

    def state_dict(self) -> dict[str, JsonValue]:
        """The state of the language model."""
        return self.language.state_dict()

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        self.language.load_state_dict(state)


def per_parent(
    request: ProposalRequest,
    wording: Wording,
    inputs: Callable[[Candidate], Mapping[str, str]] = lambda candidate: {},
    program: Any = None,
) -> list[Commission]:
    """One commission for each parent that has a share of the proposals.

    Args:
        request: whose parents.
        wording: what is asked of each.
        inputs: what differs from parent to parent, beside ``instruction``.
        program: see :class:`Commission`.
    """
    commissions = []
    split = shares(request.count, len(request.parents))
    for parent, share in zip(request.parents, split, strict=False):
        candidate = parent.candidate
        component = component_of(candidate, request)
        given = {"instruction": candidate.components[component], **inputs(candidate)}
        commissions.append(Commission(wording, given, (candidate,), component, share, program))
    return commissions


def component_of(candidate: Candidate, request: ProposalRequest) -> str:
    """The component to rewrite: the one asked for, the only one, or one drawn at random."""
    names = list(candidate.components)
    if request.component in names:
        return request.component
    return names[0] if len(names) == 1 else request.rng.choice(names)


def shares(count: int, parents: int) -> list[int]:
    """``count`` split over at most ``parents`` parents as evenly as can be, the best first.

    >>> shares(5, 3), shares(2, 3)
    ([2, 2, 1], [1, 1])
    """
    split = [count // parents + (index < count % parents) for index in range(parents)]
    return [share for share in split if share]


def _nothing(answer: Answer, max_tokens: int) -> str:
    if answer.truncated:
        return f"the answer was cut at {max_tokens} tokens; raise lm.max_tokens"
    return "the model wrote no instruction"
