"""What all proposers that ask a language model have in common, and how they begin."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel, Field, JsonValue

from evoprompt.components import BuildContext
from evoprompt.lm import Answer, Call, Estimate, LanguageModel, LmError, LmSettings
from evoprompt.log.turns import clip
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.types import TOOL, Candidate, CandidateStats, Proposal, estimate_tokens

CANDIDATES = "candidates"
"""Output field that holds the new instructions, a list of texts."""

ANALYSIS = "analysis"
"""Output field that holds the reason, if the prompt asks for one."""

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
_USUAL_WORDS = 200  # of an instruction, for an estimate
_NONE = "(none)"
_EARLIER = 6  # texts that are no longer in use and are told of, the latest ones
_SENTENCES = 12  # the clearest ones
_TEXT = 400  # characters of each text that is told of
_PROMPT, _TOOLS, _REWARD = 1_600, 2_400, 1_200  # characters


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is asked of the model, in words.

    Attributes:
        task: what to do.
        inputs: description of each input field.
        outputs: type and description of each output field.
    """

    task: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, tuple[type[str] | type[list[str]], str]]

    def about(self, component: str) -> Prompt:
        """The same, where a description of a tool is written instead of an instruction."""
        if not component.startswith(TOOL):
            return self
        tool = component.removeprefix(TOOL)
        return replace(self, task=f"{_ABOUT_A_TOOL.format(tool=tool)} {self.task}")

    def program(self) -> Any:
        """A ``dspy.Predict`` of this prompt."""
        import dspy

        fields: dict[str, tuple[type, Any]] = {
            name: (str, dspy.InputField(desc=description))
            for name, description in self.inputs.items()
        }
        for name, (kind, description) in self.outputs.items():
            fields[name] = (kind, dspy.OutputField(desc=description))
        return dspy.Predict(dspy.Signature(fields, self.task))


@dataclass(frozen=True, slots=True)
class LmTask:
    """One call, and what its answer is for.

    Attributes:
        prompt: what is asked.
        inputs: the fields that differ from call to call.
        parents: candidates the texts will descend from; the first lends the other components.
        component: the component that is rewritten.
        wanted: most texts to take from the answer.
        program: module to run instead of the prompt's own, such as a compiled one.
    """

    prompt: Prompt
    inputs: Mapping[str, str]
    parents: tuple[Candidate, ...]
    component: str
    wanted: int
    program: Any = field(default=None, compare=False)


class LmProposer(Proposer, ABC):
    """A proposer that asks a language model; a subclass says what to ask.

    Args:
        language: answers the questions.
    """

    slow = True

    class Settings(BaseModel, extra="forbid"):
        """What a configuration may set."""

        lm: LmSettings = Field(description="the language model that is asked")

    name: str
    """How proposals are signed, and the proposer is named in configurations."""

    @classmethod
    def build(cls, settings: Any, context: BuildContext) -> Proposer:
        """Makes one that asks the language model of ``settings``."""
        arguments = dict(settings)
        lm: LmSettings = arguments.pop("lm")
        language = LanguageModel(lm, context.directory, context.spending, context.given)
        return cls(language, **arguments)

    def __init__(self, language: LanguageModel) -> None:
        self.language = language
        self._notices: list[str] = []

    @abstractmethod
    def plan(self, request: ProposalRequest) -> Sequence[LmTask]:
        """The calls to make for ``request``."""

    input_tokens = 2_000
    """About how many tokens the inputs of one call have, for an estimate."""

    def calls_for(self, count: int, parents: int) -> int:
        """Number of calls for ``count`` proposals from ``parents`` parents: one a parent."""
        return min(count, parents)

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """What the model wrote, at most ``request.count`` proposals.

        Raises:
            LmError: no call brought a single text.
        """
        tasks = self.plan(request)
        calls = [self._call(task, request) for task in tasks]
        proposals: list[Proposal] = []
        errors: list[LmError] = []
        for task, answer in zip(tasks, self.language.ask(calls), strict=True):
            if isinstance(answer, LmError):
                errors.append(answer)
                continue
            found = self._proposals(task, answer)
            proposals += found
            if not found:
                errors.append(LmError(_nothing(answer, self.language.max_tokens)))
        if errors and not proposals:
            raise errors[0]
        self._notices += [f"{self.name}: one call brought nothing: {e}" for e in errors]
        return proposals[: request.count]

    def check(self, probe: bool = False) -> None:
        """Makes sure that the language model can be asked; see :meth:`LanguageModel.check`."""
        self.language.check(probe)

    def _call(self, task: LmTask, request: ProposalRequest) -> Call:
        candidate = task.parents[0]
        written = candidate.components[task.component]
        # A required string that another component holds is not this component's business.
        required = [r for r in request.required if r in written or r not in candidate.text]
        common = {
            "required": "\n".join(required) or "(none)",
            "count": str(task.wanted),
            "length": length_of(request, candidate, task.component),
            "setting": setting_of(request, candidate, task.component),
            "tried": tried_of(request, candidate, task.component),
            "refused": refused_of(request),
        }
        inputs = {name: {**common, **task.inputs}[name] for name in task.prompt.inputs}
        if task.program is not None:
            return Call(lambda: task.program, inputs)
        return Call(task.prompt.about(task.component).program, inputs)

    def _proposals(self, task: LmTask, answer: Answer) -> list[Proposal]:
        texts = answer.fields.get(CANDIDATES)
        whole = list(texts) if isinstance(texts, list) else []
        if answer.truncated:
            whole = whole[:-1]  # DSPy repairs a list that was cut, and the last text with it
        return [
            Proposal(
                {**task.parents[0].components, task.component: text.strip()},
                tuple(dict.fromkeys(parent.id for parent in task.parents)),
                str(answer.fields.get(ANALYSIS, "")),
                self.name,
            )
            for text in whole[: task.wanted]
            if isinstance(text, str)
        ]

    def notices(self) -> Sequence[str]:
        """Calls that failed while others succeeded, since the last time."""
        notices, self._notices = self._notices, []
        return notices

    def metrics(self) -> Mapping[str, float]:
        """Calls, tokens and USD spent by the language model."""
        return self.language.metrics()

    def estimate(self, generations: int, count: int, parents: int) -> Estimate:
        """What ``generations`` requests for ``count`` proposals will cost."""
        calls = max(self.calls_for(count, parents), 1)
        texts = -(-count // calls)
        words = (texts + 1) * _USUAL_WORDS  # one more for the analysis
        output = min(round(words * _TOKENS_A_WORD), self.language.max_tokens)
        return self.language.estimate(generations * calls, self.input_tokens, output)

    def state_dict(self) -> dict[str, JsonValue]:
        """The state of the language model."""
        return self.language.state_dict()

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        self.language.load_state_dict(state)


def per_parent(
    request: ProposalRequest,
    prompt: Prompt,
    inputs: Callable[[Candidate], Mapping[str, str]] = lambda candidate: {},
    program: Any = None,
) -> list[LmTask]:
    """One task for each parent that has a share of the proposals.

    Args:
        request: whose parents.
        prompt: what is asked of each.
        inputs: what differs from parent to parent, beside ``instruction``.
        program: see :class:`LmTask`.
    """
    tasks = []
    split = shares(request.count, len(request.parents))
    for parent, share in zip(request.parents, split, strict=False):
        candidate = parent.candidate
        component = component_of(candidate, request)
        given = {"instruction": candidate.components[component], **inputs(candidate)}
        tasks.append(LmTask(prompt, given, (candidate,), component, share, program))
    return tasks


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


DIVERSIFY = Prompt(
    task=(
        "An agent is about to work under an instruction, and nobody knows yet which "
        "instruction suits it. Write further instructions for the same task that approach it in "
        "ways as different from each other, and from the given one, as you can think of: another "
        "order of work, another degree of caution, another use of the tools, another length. "
        "Each stands alone and replaces the given one entirely. Write the instructions only, "
        "without numbering, headings or remarks about them."
    ),
    inputs={
        "instruction": "the instruction to begin with",
        **AROUND,
        "required": "strings that every instruction must hold letter by letter, one per line",
        "length": "of every instruction",
        "count": "number of instructions to write",
    },
    outputs={CANDIDATES: (list[str], "the instructions, exactly `count` of them")},
)


def diversify(request: ProposalRequest) -> Sequence[LmTask]:
    """One call per parent that fills the population with different approaches."""
    return per_parent(request, DIVERSIFY)


def _nothing(answer: Answer, max_tokens: int) -> str:
    if answer.truncated:
        return f"the answer was cut at {max_tokens} tokens; raise lm.max_tokens"
    return "the model wrote no instruction"


# ---------------------------------------- what a model is told besides the instruction


def setting_of(request: ProposalRequest, candidate: Candidate, component: str) -> str:
    """What stands around the text that is to be rewritten.

    Args:
        request: whose setting.
        candidate: whose other components.
        component: the one that is rewritten.
    """
    setting = request.setting
    parts: list[str] = []
    if what := setting.components.get(component, ""):
        parts.append(f"What is rewritten: {what}")
    if setting.prompt:
        parts.append(f"A prompt, with its place marked:\n{clip(setting.prompt, _PROMPT)}")
    if setting.tools:
        shown = "\n".join(map(_schema, setting.tools))
        parts.append(f"The tools that can be called:\n{clip(shown, _TOOLS)}")
    if setting.call:
        parts.append(f"How the agent has to write a call:\n{clip(setting.call, _TEXT)}")
    if setting.reward:
        parts.append(f"What the score rewards:\n{clip(setting.reward, _REWARD)}")
    others = {name: text for name, text in candidate.components.items() if name != component}
    if others:
        told = "\n".join(
            f"- {setting.components.get(name) or _called(name)}: {clip(text, _TEXT)}"
            for name, text in others.items()
        )
        parts.append(f"Other texts that it works with, and that stay as they are:\n{told}")
    return "\n\n".join(parts) or "(nothing is known of it)"


def tried_of(request: ProposalRequest, candidate: Candidate, component: str) -> str:
    """What was earned under the text, the others in use and the latest of those that were.

    Args:
        request: who is alive, and who was.
        candidate: whom it is told beside.
        component: the one that is rewritten.
    """
    members = {member.candidate.id: member for member in request.members}
    earlier = [
        entry for entry in request.history if entry.candidate.id not in members and entry.groups
    ]
    known = [("in use", member) for member in sorted(members.values(), key=_by_weight)]
    known += [("given up", one) for one in earlier[-_EARLIER:]]
    seen = {candidate.components.get(component)}
    own = [
        parent
        for parent in request.parents
        if parent.candidate.id == candidate.id and parent.groups
    ]
    lines = [f"- the instruction above, {_earned(one)}" for one in own]
    for state, one in known:
        text = one.candidate.components.get(component)
        if text is not None and text not in seen:
            seen.add(text)
            lines.append(f"- {state}, {_earned(one)}: {clip(text, _TEXT)}")
    if any(one.step is not None and state == "given up" for state, one in known):
        lines.append(
            f"It is step {request.step} now. The agent has learned since the steps above, so a "
            "text that was given up long ago may be tried again."
        )
    shown = [sentence for sentence in request.sentences if sentence.verdict != "not shown"][
        :_SENTENCES
    ]
    if shown and lines:
        lines.append("What single sentences add to the score, wherever they stand:")
        lines += [f"- {clip(one.text, _TEXT)}: worth {one}" for one in shown]
    return "\n".join(lines) or _NONE


def refused_of(request: ProposalRequest) -> str:
    """Why texts that were proposed the last time could not be tried."""
    return (
        "\n".join(f"- {clip(refusal, _TEXT)}" for refusal in dict.fromkeys(request.rejections))
        or _NONE
    )


def length_of(request: ProposalRequest, candidate: Candidate, component: str) -> str:
    """How long a text may be."""
    end = "no longer than its content needs"
    if request.max_tokens is None:
        return end
    others = [text for name, text in candidate.components.items() if name != component]
    taken = round(sum(map(estimate_tokens, others)) * _TOKENS_A_WORD)
    room = max(request.max_tokens - taken, 1)
    words = max(round(room / _TOKENS_A_WORD), 1)
    return f"at most {room} tokens, about {words} words; {end}"


def _schema(schema: Mapping[str, JsonValue]) -> str:
    function = schema.get("function", schema)
    return json.dumps(function, ensure_ascii=False)


def _called(name: str) -> str:
    if name.startswith(TOOL):
        return f"the description of the tool `{name.removeprefix(TOOL)}`"
    return f"`{name}`"


def _by_weight(stats: CandidateStats) -> tuple[bool, float]:
    return not stats.groups, -stats.weight


def _earned(stats: CandidateStats) -> str:
    if not stats.groups:
        return "not measured yet"
    measured = f"score {stats.weight:.2f}, measured {stats.groups} times"
    if stats.step is None:
        return measured
    if stats.lead is None:
        return f"{measured} up to step {stats.step}"
    side = "above" if stats.lead >= 0 else "below"
    return (
        f"{measured} up to step {stats.step}, {abs(stats.lead):.2f} {side} the best instruction of "
        "that step"
    )
