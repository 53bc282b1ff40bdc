"""Base class of the proposers that use a language model, and the texts that it reads."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel, Field, JsonValue

from evoprompt.components import BuildContext
from evoprompt.lm import Estimate, LanguageModel, LmCall, LmError, LmSettings, ProgramOutput
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
"""Input fields that describe the context of an instruction, for the model that writes it."""

_ABOUT_A_TOOL = (
    "In what follows, an instruction is the description of the tool `{tool}`: the agent reads it "
    "beside its task, and decides by it when to call the tool and with which arguments. Describe "
    "what the tool really does, as far as the texts you are given show it."
)
_TOKENS_A_WORD = 1.4
_USUAL_WORDS = 200  # of an instruction, for an estimate
_EMPTY_LIST = "(none)"
_MAX_EARLIER_TEXTS = 6  # listed texts that are no longer in use, the latest ones
_MAX_SENTENCES = 12  # listed sentences, the clearest ones
_MAX_TEXT = 400  # characters of each listed text
_PROMPT, _TOOLS, _REWARD = 1_600, 2_400, 1_200  # characters


@dataclass(frozen=True, slots=True)
class Prompt:
    """Prompt of a proposer, in words.

    Attributes:
        task: description of the work.
        inputs: description of each input field.
        outputs: type and description of each output field.
    """

    task: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, tuple[type[str] | type[list[str]], str]]

    def about(self, component: str) -> Prompt:
        """Return the prompt for a component: for a tool, it asks for a description of the tool."""
        if not component.startswith(TOOL):
            return self
        tool = component.removeprefix(TOOL)
        return replace(self, task=f"{_ABOUT_A_TOOL.format(tool=tool)} {self.task}")

    def program(self) -> Any:
        """Return a ``dspy.Predict`` of this prompt."""
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
    """One call of a language model, and the use of its result.

    Attributes:
        prompt: the prompt.
        inputs: the fields that differ from call to call.
        parents: parents of the new texts; the other components come from the first.
        component: the component that is rewritten.
        max_texts: maximum number of texts to take from the result.
        program: module to run instead of that of the prompt, such as a compiled one.
    """

    prompt: Prompt
    inputs: Mapping[str, str]
    parents: tuple[Candidate, ...]
    component: str
    max_texts: int
    program: Any = field(default=None, compare=False)

    def text_of(self, inputs: Mapping[str, object]) -> str:
        """Return about the text of a request with ``inputs``; DSPy is not imported.

        A field has its description, its name and its place in the form, and the value of an input.
        """
        outputs = {name: text for name, (_, text) in self.prompt.outputs.items()}
        fields = {**self.prompt.inputs, **outputs}
        form = [f"{name} {text} [[ ## {name} ## ]] {{{name}}}" for name, text in fields.items()]
        values = [f"[[ ## {name} ## ]] {value}" for name, value in inputs.items()]
        return "\n".join([self.prompt.about(self.component).task, *form, *values])


class LmProposer(Proposer, ABC):
    """Proposer that uses a language model; a subclass plans the calls.

    Args:
        language: the language model.

    Args:
        language: answers the questions.
    """

    slow = True

    class Settings(BaseModel, extra="forbid"):
        """Settings of the proposer in a configuration."""

        lm: LmSettings = Field(description="the language model that is used")

    name: str
    """Name of the proposer in its proposals and in configurations."""

    @classmethod
    def build(cls, settings: Any, context: BuildContext) -> Proposer:
        """Build a proposer that uses the language model of ``settings``."""
        arguments = dict(settings)
        lm: LmSettings = arguments.pop("lm")
        language = LanguageModel(lm, context.directory, context.spending, context.connection)
        return cls(language, **arguments)

    def __init__(self, language: LanguageModel) -> None:
        self.language = language
        self._notices: list[str] = []

    @abstractmethod
    def plan(self, request: ProposalRequest) -> Sequence[LmTask]:
        """Return the calls for ``request``."""

    input_tokens = 2_000
    """Approximate number of tokens of the inputs of one call, for an estimate."""

    def calls_for(self, count: int, parents: int) -> int:
        """Return the number of calls for ``count`` proposals: one for each parent."""
        return min(count, parents)

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Return the proposals that the model wrote, at most ``request.count``.

        Raises:
            LmError: no call returned any text.
        """
        tasks = self.plan(request)
        calls = [self._call(task, request) for task in tasks]
        proposals: list[Proposal] = []
        errors: list[LmError] = []
        for task, answer in zip(tasks, self.language.ask(calls), strict=True):
            if isinstance(answer, LmError):
                errors.append(answer)
                continue
            new_proposals = self._proposals(task, answer)
            proposals += new_proposals
            if not new_proposals:
                errors.append(LmError(_describe_empty_result(answer, self.language.max_tokens)))
        if errors and not proposals:
            raise errors[0]
        self._notices += [f"{self.name}: one call brought nothing: {e}" for e in errors]
        return proposals[: request.count]

    def check(self, probe: bool = False) -> None:
        """Check that the language model can be used; see :meth:`LanguageModel.check`."""
        self.language.check(probe)

    def _call(self, task: LmTask, request: ProposalRequest) -> LmCall:
        candidate = task.parents[0]
        current_text = candidate.components[task.component]
        # A required string in another component is not required in this component.
        required = [r for r in request.required if r in current_text or r not in candidate.text]
        common = {
            "required": "\n".join(required) or "(none)",
            "count": str(task.max_texts),
            "length": length_of(request, candidate, task.component),
            "setting": setting_of(request, candidate, task.component),
            "tried": tried_of(request, candidate, task.component),
            "refused": refused_of(request),
        }
        inputs = {name: {**common, **task.inputs}[name] for name in task.prompt.inputs}
        if task.program is not None:
            return LmCall(lambda: task.program, inputs, request.corpus)
        return LmCall(task.prompt.about(task.component).program, inputs, request.corpus)

    def _proposals(self, task: LmTask, answer: ProgramOutput) -> list[Proposal]:
        texts = answer.fields.get(CANDIDATES)
        whole = list(texts) if isinstance(texts, list) else []
        if answer.truncated:
            whole = whole[:-1]  # DSPy repairs a list that was cut, and with it the last text
        return [
            Proposal(
                {**task.parents[0].components, task.component: text.strip()},
                tuple(dict.fromkeys(parent.id for parent in task.parents)),
                str(answer.fields.get(ANALYSIS, "")),
                self.name,
            )
            for text in whole[: task.max_texts]
            if isinstance(text, str)
        ]

    def notices(self) -> Sequence[str]:
        """Return new messages about calls that failed while further calls succeeded."""
        notices, self._notices = self._notices, []
        return notices

    def metrics(self) -> Mapping[str, float]:
        """Return the calls, tokens and USD spent by the language model."""
        return self.language.metrics()

    def estimate(self, generations: int, count: int, parents: int) -> Estimate:
        """Return the estimated cost of ``generations`` requests for ``count`` proposals."""
        calls = max(self.calls_for(count, parents), 1)
        output = self._output_tokens(-(-count // calls))
        return self.language.estimate(generations * calls, self.input_tokens, output)

    def _output_tokens(self, texts: int) -> int:
        """Return the usual number of tokens of an answer with ``texts`` instructions."""
        words = (texts + 1) * _USUAL_WORDS  # one more for the analysis
        return min(round(words * _TOKENS_A_WORD), self.language.max_tokens)

    def estimate_request(self, request: ProposalRequest, is_bound: bool = False) -> Estimate:
        """Return the cost of ``request`` by the texts that the model would read."""
        total = Estimate(0, 0, 0.0)
        for task in self.plan(request):
            text = task.text_of(self._call(task, request).inputs)
            tokens, output = estimate_tokens(text), self._output_tokens(task.max_texts)
            if is_bound:  # a token is at least one byte
                tokens = max(len(text.encode("utf-8", "replace")), self.input_tokens)
                output = self.language.max_tokens
            total += self.language.estimate(1, tokens, output)
        return total

    def state_dict(self) -> dict[str, JsonValue]:
        """Return the state of the language model."""
        return self.language.state_dict()

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continue from ``state``."""
        self.language.load_state_dict(state)


def per_parent(
    request: ProposalRequest,
    prompt: Prompt,
    inputs: Callable[[Candidate], Mapping[str, str]] = lambda candidate: {},
    program: Any = None,
) -> list[LmTask]:
    """Return a task for each parent that has a share of the proposals.

    Args:
        request: the request with the parents.
        prompt: the prompt of each task.
        inputs: inputs of a parent, in addition to ``instruction``.
        program: see :class:`LmTask`.
    """
    tasks = []
    split = shares(request.count, len(request.parents))
    for parent, share in zip(request.parents, split, strict=False):
        candidate = parent.candidate
        component = component_of(candidate, request)
        task_inputs = {"instruction": candidate.components[component], **inputs(candidate)}
        tasks.append(LmTask(prompt, task_inputs, (candidate,), component, share, program))
    return tasks


def component_of(candidate: Candidate, request: ProposalRequest) -> str:
    """Return the component to rewrite: the requested one, the only one, or a random one."""
    names = list(candidate.components)
    if request.component in names:
        return request.component
    return names[0] if len(names) == 1 else request.rng.choice(names)


def shares(count: int, parents: int) -> list[int]:
    """Return ``count`` split over at most ``parents`` parents as evenly as possible, best first.

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
    """Return a call for each parent that fills the population with different approaches."""
    return per_parent(request, DIVERSIFY)


def _describe_empty_result(answer: ProgramOutput, max_tokens: int) -> str:
    if answer.truncated:
        return f"the answer was cut at {max_tokens} tokens; raise lm.max_tokens"
    return "the model wrote no instruction"


# ---------------------------------------- further inputs of a prompt


def setting_of(request: ProposalRequest, candidate: Candidate, component: str) -> str:
    """Describe the context of the text that is rewritten.

    Args:
        request: the request with the setting.
        candidate: the candidate with the remaining components.
        component: name of the component that is rewritten.
    """
    setting = request.setting
    parts: list[str] = []
    if description := setting.components.get(component, ""):
        parts.append(f"What is rewritten: {description}")
    if setting.prompt:
        parts.append(f"A prompt, with its place marked:\n{clip(setting.prompt, _PROMPT)}")
    if setting.tools:
        schemas = "\n".join(map(_schema, setting.tools))
        parts.append(f"The tools that can be called:\n{clip(schemas, _TOOLS)}")
    if setting.call:
        parts.append(f"How the agent has to write a call:\n{clip(setting.call, _MAX_TEXT)}")
    if setting.reward:
        parts.append(f"What the score rewards:\n{clip(setting.reward, _REWARD)}")
    other_components = {
        name: text for name, text in candidate.components.items() if name != component
    }
    if other_components:
        listing = "\n".join(
            f"- {setting.components.get(name) or _component_label(name)}: {clip(text, _MAX_TEXT)}"
            for name, text in other_components.items()
        )
        parts.append(f"Other texts that it works with, and that stay as they are:\n{listing}")
    return "\n\n".join(parts) or "(nothing is known of it)"


def tried_of(request: ProposalRequest, candidate: Candidate, component: str) -> str:
    """Describe the rewards under the text, under members and under the latest pruned candidates.

    Args:
        request: the request with the members and the history.
        candidate: the candidate that is rewritten.
        component: name of the component that is rewritten.
    """
    members = {member.candidate.id: member for member in request.members}
    earlier = [
        entry for entry in request.history if entry.candidate.id not in members and entry.groups
    ]
    listed = [("in use", member) for member in sorted(members.values(), key=_by_weight)]
    listed += [("given up", entry) for entry in earlier[-_MAX_EARLIER_TEXTS:]]
    seen_texts = {candidate.components.get(component)}
    own_stats = [
        parent
        for parent in request.parents
        if parent.candidate.id == candidate.id and parent.groups
    ]
    lines = [f"- the instruction above, {_describe_reward(stats)}" for stats in own_stats]
    for state, stats in listed:
        text = stats.candidate.components.get(component)
        if text is not None and text not in seen_texts:
            seen_texts.add(text)
            lines.append(f"- {state}, {_describe_reward(stats)}: {clip(text, _MAX_TEXT)}")
    if any(stats.step is not None and state == "given up" for state, stats in listed):
        lines.append(
            f"It is step {request.step} now. The agent has learned since the steps above, so a "
            "text that was given up long ago may be tried again."
        )
    clear_sentences = [
        sentence for sentence in request.sentences if sentence.verdict != "not shown"
    ][:_MAX_SENTENCES]
    if clear_sentences and lines:
        lines.append("What single sentences add to the score, wherever they stand:")
        lines += [
            f"- {clip(sentence.text, _MAX_TEXT)}: worth {sentence}" for sentence in clear_sentences
        ]
    return "\n".join(lines) or _EMPTY_LIST


def refused_of(request: ProposalRequest) -> str:
    """Return the reasons for which the last proposals were rejected."""
    return (
        "\n".join(f"- {clip(refusal, _MAX_TEXT)}" for refusal in dict.fromkeys(request.rejections))
        or _EMPTY_LIST
    )


def length_of(request: ProposalRequest, candidate: Candidate, component: str) -> str:
    """Describe the permitted length of a text."""
    end = "no longer than its content needs"
    if request.max_tokens is None:
        return end
    other_texts = [text for name, text in candidate.components.items() if name != component]
    used_tokens = round(sum(map(estimate_tokens, other_texts)) * _TOKENS_A_WORD)
    room = max(request.max_tokens - used_tokens, 1)
    words = max(round(room / _TOKENS_A_WORD), 1)
    return f"at most {room} tokens, about {words} words; {end}"


def _schema(schema: Mapping[str, JsonValue]) -> str:
    function = schema.get("function", schema)
    return json.dumps(function, ensure_ascii=False)


def _component_label(name: str) -> str:
    if name.startswith(TOOL):
        return f"the description of the tool `{name.removeprefix(TOOL)}`"
    return f"`{name}`"


def _by_weight(stats: CandidateStats) -> tuple[bool, float]:
    return not stats.groups, -stats.weight


def _describe_reward(stats: CandidateStats) -> str:
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
