"""The texts of a DSPy program that evolve: instructions of predictors, descriptions of tools."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import dspy
from dspy.adapters.utils import get_field_description_string

from evoprompt.support.errors import InputError
from evoprompt.types import TOOL, TaskContext

Key = str | int | None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a program holds a tool."""

    module: str
    attribute: str
    key: Key


@dataclass(frozen=True, slots=True)
class _Listed:
    """An instruction that lists tools, as that of ``dspy.ReAct`` does.

    What stands before the list evolves; the list follows the descriptions; the rest stays.
    """

    before: str
    tools: str
    after: str

    def write(self, text: str, renamed: Mapping[str, str]) -> str:
        """The whole instruction with ``text`` before the list."""
        tools = self.tools
        for old, new in renamed.items():
            tools = tools.replace(old, new)
        before = self.before if text == self.before.strip() else f"{text}\n\n"
        return before + tools + self.after


class Genome:
    """The components of a program, and programs with other texts.

    Args:
        student: the program; it is never changed.
        tools: whether descriptions of tools evolve, too.

    Attributes:
        texts: of the student: the instruction of each predictor under its name, and the
            description of each tool under ``tool:NAME``.

    Raises:
        InputError: there is nothing that can evolve.
    """

    def __init__(self, student: Any, tools: bool = True) -> None:
        self._student = student
        self._tools: dict[str, Any] = {}
        self._places: dict[_Place, str] = {}
        for place, tool in _places(student):
            if tools and not _is_of_dspy(tool):
                self._places[place] = self._name_of(tool)
        self.texts: dict[str, str] = {}
        self._listed: dict[str, _Listed] = {}
        for name, predictor in student.named_predictors():
            text = predictor.signature.instructions
            listed = _listed(text, [tool for _, tool in _places(student)])
            if listed is not None:
                self._listed[name] = listed
                text = listed.before.strip()
            self.texts[name] = text
        for name, tool in self._tools.items():
            self.texts[name] = tool.desc or f"The tool {tool.name}."
        if not self.texts:
            raise InputError(
                f"the program {type(student).__name__} has no predictor and no tool; required: a "
                "dspy.Module with at least one of them, so that there is a text to improve"
            )

    @property
    def setting(self) -> TaskContext:
        """What the components are, and the tools whose descriptions can be read."""
        what = {
            name: f"the instruction of the predictor `{name}`. Its inputs are:\n"
            f"{get_field_description_string(predictor.signature.input_fields)}\n"
            f"Its outputs are:\n{get_field_description_string(predictor.signature.output_fields)}"
            for name, predictor in self._student.named_predictors()
        }
        what |= {
            name: f"the description of the tool `{tool.name}`" for name, tool in self._tools.items()
        }
        tools = {tool.name: _schema(tool) for _, tool in _places(self._student)}
        return TaskContext(tools=list(tools.values()), components=what, trained=False)

    def build(self, texts: Mapping[str, str]) -> Any:
        """A copy of the student with ``texts``."""
        program = self._student.deepcopy()
        tools = {
            name: tool if texts[name] == self.texts[name] else _described(tool, texts[name])
            for name, tool in self._tools.items()
        }
        renamed = {str(self._tools[name]): str(tool) for name, tool in tools.items()}
        modules = dict(program.named_sub_modules())
        for place, name in self._places.items():
            _put(modules[place.module], place, tools[name])
        for name, predictor in program.named_predictors():
            listed = self._listed.get(name)
            text = texts[name] if listed is None else listed.write(texts[name], renamed)
            predictor.signature = predictor.signature.with_instructions(text)
        return program

    def unsaved(self, texts: Mapping[str, str]) -> list[str]:
        """Tools whose new description is in no instruction, and so in no saved state."""
        program = self.build(texts)
        said = [predictor.signature.instructions for predictor in program.predictors()]
        return [
            tool.name
            for name, tool in self._tools.items()
            if texts[name] != self.texts[name]
            and not any(str(_described(tool, texts[name])) in one for one in said)
        ]

    def _name_of(self, tool: Any) -> str:
        """The component of ``tool``; the same tool in two places has one."""
        name, number = f"{TOOL}{tool.name}", 1
        while name in self._tools and self._tools[name] is not tool:
            number += 1
            name = f"{TOOL}{tool.name} {number}"
        self._tools[name] = tool
        return name


def _places(program: Any) -> Iterator[tuple[_Place, Any]]:
    """Every place of ``program`` that holds a tool, and the tool."""
    for path, module in program.named_sub_modules():
        for attribute, value in vars(module).items():
            held: Iterator[tuple[Key, Any]] = iter([(None, value)])
            if isinstance(value, Mapping):
                held = iter(value.items())
            elif isinstance(value, list | tuple):
                held = iter(enumerate(value))
            for key, one in held:
                if isinstance(one, dspy.Tool):
                    yield _Place(path, attribute, key), one


def _put(module: Any, place: _Place, tool: Any) -> None:
    """Puts ``tool`` into its place, in a container of its own: a copy may share the student's."""
    if place.key is None:
        setattr(module, place.attribute, tool)
        return
    held = getattr(module, place.attribute)
    fresh: Any = list(held) if isinstance(held, tuple) else copy.copy(held)
    fresh[place.key] = tool
    setattr(module, place.attribute, tuple(fresh) if isinstance(held, tuple) else fresh)


def _schema(tool: Any) -> Mapping[str, Any]:
    return {"name": tool.name, "description": tool.desc or "", "parameters": tool.args or {}}


def _described(tool: Any, text: str) -> Any:
    return tool.model_copy(update={"desc": text})


def _is_of_dspy(tool: Any) -> bool:
    """Whether DSPy added it, as ``finish`` of ``dspy.ReAct``: a part of its protocol."""
    return str(getattr(tool.func, "__module__", "")).startswith("dspy.")


def _listed(instruction: str, tools: list[Any]) -> _Listed | None:
    """The parts of ``instruction`` if it lists ``tools`` as they write themselves."""
    found = [(instruction.find(str(tool)), str(tool)) for tool in tools]
    spans = [(start, start + len(text)) for start, text in found if start >= 0]
    if not spans:
        return None
    start, end = min(spans)[0], max(stop for _, stop in spans)
    start = instruction.rfind("\n", 0, start) + 1  # with the number before it
    if not instruction[:start].strip():
        return None
    return _Listed(instruction[:start], instruction[start:end], instruction[end:])
