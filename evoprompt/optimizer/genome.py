"""Components of a DSPy program: instructions of predictors and descriptions of tools."""

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
class _ToolPath:
    """Path of a tool in a program."""

    module: str
    attribute: str
    key: Key


@dataclass(frozen=True, slots=True)
class _Listed:
    """Instruction that lists tools, as that of ``dspy.ReAct`` does.

    The text before the list evolves; the list follows the descriptions; the text after it stays.
    """

    before: str
    tools: str
    after: str

    def write(self, text: str, renamed: Mapping[str, str]) -> str:
        """Return the whole instruction with ``text`` before the list."""
        tools = self.tools
        for old, new in renamed.items():
            tools = tools.replace(old, new)
        before = self.before if text == self.before.strip() else f"{text}\n\n"
        return before + tools + self.after


class Genome:
    """Components of a program, with a method that builds the program with other texts.

    Args:
        student: the program; it is never changed.
        tools: whether descriptions of tools evolve, too.

    Attributes:
        texts: texts of the student: the instruction of each predictor under its name, and the
            description of each tool under ``tool:NAME``.

    Raises:
        InputError: there is nothing that can evolve.
    """

    def __init__(self, student: Any, tools: bool = True) -> None:
        self._student = student
        self._tools: dict[str, Any] = {}
        self._components_by_path: dict[_ToolPath, str] = {}
        for path, tool in _tools_of(student):
            if tools and not _is_of_dspy(tool):
                self._components_by_path[path] = self._name_of(tool)
        self.texts: dict[str, str] = {}
        self._listed: dict[str, _Listed] = {}
        for name, predictor in student.named_predictors():
            text = predictor.signature.instructions
            listed = _split_listed(text, [tool for _, tool in _tools_of(student)])
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
        """Return the task context: the components, and the tools with readable descriptions."""
        descriptions = {
            name: f"the instruction of the predictor `{name}`. Its inputs are:\n"
            f"{get_field_description_string(predictor.signature.input_fields)}\n"
            f"Its outputs are:\n{get_field_description_string(predictor.signature.output_fields)}"
            for name, predictor in self._student.named_predictors()
        }
        descriptions |= {
            name: f"the description of the tool `{tool.name}`" for name, tool in self._tools.items()
        }
        tools = {tool.name: _schema(tool) for _, tool in _tools_of(self._student)}
        return TaskContext(tools=list(tools.values()), components=descriptions, trained=False)

    def build(self, texts: Mapping[str, str]) -> Any:
        """Return a copy of the student with ``texts``."""
        program = self._student.deepcopy()
        tools = {
            name: tool if texts[name] == self.texts[name] else _copy_tool(tool, texts[name])
            for name, tool in self._tools.items()
        }
        renamed = {str(self._tools[name]): str(tool) for name, tool in tools.items()}
        modules = dict(program.named_sub_modules())
        for path, name in self._components_by_path.items():
            _replace_tool(modules[path.module], path, tools[name])
        for name, predictor in program.named_predictors():
            listed = self._listed.get(name)
            text = texts[name] if listed is None else listed.write(texts[name], renamed)
            predictor.signature = predictor.signature.with_instructions(text)
        return program

    def unsaved_tools(self, texts: Mapping[str, str]) -> list[str]:
        """Return the tools with a new description in no instruction, so in no saved state."""
        program = self.build(texts)
        instructions = [predictor.signature.instructions for predictor in program.predictors()]
        return [
            tool.name
            for name, tool in self._tools.items()
            if texts[name] != self.texts[name]
            and not any(
                str(_copy_tool(tool, texts[name])) in instruction for instruction in instructions
            )
        ]

    def _name_of(self, tool: Any) -> str:
        """Return the component name of ``tool``; the same tool in two places has one name."""
        name, number = f"{TOOL}{tool.name}", 1
        while name in self._tools and self._tools[name] is not tool:
            number += 1
            name = f"{TOOL}{tool.name} {number}"
        self._tools[name] = tool
        return name


def _tools_of(program: Any) -> Iterator[tuple[_ToolPath, Any]]:
    """Yield the path of every tool of ``program``, and the tool."""
    for path, module in program.named_sub_modules():
        for attribute, value in vars(module).items():
            entries: Iterator[tuple[Key, Any]] = iter([(None, value)])
            if isinstance(value, Mapping):
                entries = iter(value.items())
            elif isinstance(value, list | tuple):
                entries = iter(enumerate(value))
            for key, entry in entries:
                if isinstance(entry, dspy.Tool):
                    yield _ToolPath(path, attribute, key), entry


def _replace_tool(module: Any, path: _ToolPath, tool: Any) -> None:
    """Set the tool at ``path``, in a new container: a copy may share that of the student."""
    if path.key is None:
        setattr(module, path.attribute, tool)
        return
    container = getattr(module, path.attribute)
    new_container: Any = list(container) if isinstance(container, tuple) else copy.copy(container)
    new_container[path.key] = tool
    setattr(
        module,
        path.attribute,
        tuple(new_container) if isinstance(container, tuple) else new_container,
    )


def _schema(tool: Any) -> Mapping[str, Any]:
    return {"name": tool.name, "description": tool.desc or "", "parameters": tool.args or {}}


def _copy_tool(tool: Any, text: str) -> Any:
    return tool.model_copy(update={"desc": text})


def _is_of_dspy(tool: Any) -> bool:
    """Return whether DSPy added the tool for its protocol, as ``finish`` of ``dspy.ReAct``."""
    return str(getattr(tool.func, "__module__", "")).startswith("dspy.")


def _split_listed(instruction: str, tools: list[Any]) -> _Listed | None:
    """Return the parts of ``instruction`` if it lists ``tools`` as ``str`` writes them."""
    tool_starts = [(instruction.find(str(tool)), str(tool)) for tool in tools]
    spans = [(start, start + len(text)) for start, text in tool_starts if start >= 0]
    if not spans:
        return None
    start, end = min(spans)[0], max(stop for _, stop in spans)
    start = instruction.rfind("\n", 0, start) + 1  # with the number before it
    if not instruction[:start].strip():
        return None
    return _Listed(instruction[:start], instruction[start:end], instruction[end:])
