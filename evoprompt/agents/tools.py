"""Typed Python functions as tools; what a policy reads of them comes from their signatures."""

from __future__ import annotations

import asyncio
import inspect
import json
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, ValidationError, create_model

from evoprompt.agents.episode import Broken, Result
from evoprompt.agents.protocol import Call
from evoprompt.support.errors import EvopromptError, InputError
from evoprompt.support.text import format_error

_JSON: TypeAdapter[object] = TypeAdapter(object)
_MOST_HANGING = 16
"""Calls that may hang for ever before a tool counts as broken; each holds a thread."""


class ToolUnavailable(EvopromptError, RuntimeError):  # noqa: N818
    """A tool is out of order, whatever it is asked: its episodes end without a score."""


class Tools:
    """Calls functions by name, with arguments that fit their signatures.

    Whatever the policy does wrong is a result that it may read, beginning with ``Error:``:
    arguments that do not fit, a name that is unknown, a function that raises or takes too long.
    Only :class:`ToolUnavailable` and ``ConnectionError`` mean that the tool broke.

    Args:
        functions: with a type for every parameter and a docstring, which the policy reads. What
            is returned is shown as it is if it is text, else as JSON.
        seconds: longest time a call may take; functions then run in another thread. None calls
            them in the thread of the caller, as long as it takes.

    Raises:
        InputError: a function cannot be described to a policy.
    """

    def __init__(
        self, functions: Sequence[Callable[..., object]], seconds: float | None = 30.0
    ) -> None:
        self._tools = {function.__name__: _Tool.of(function) for function in functions}
        self._seconds = seconds
        self._hanging: list[threading.Thread] = []
        self._lock = threading.Lock()

    @property
    def schemas(self) -> list[dict[str, JsonValue]]:
        """What chat templates show of the tools, in the form of OpenAI's API."""
        return [tool.schema for tool in self._tools.values()]

    @property
    def descriptions(self) -> dict[str, str]:
        """What a policy reads of each tool: its docstring, by name."""
        return {name: inspect.getdoc(tool.function) or "" for name, tool in self._tools.items()}

    def __call__(self, calls: Sequence[Call]) -> list[Result]:
        """The results of ``calls``, one after the other."""
        return [self._result(call) for call in calls]

    async def one(self, call: Call) -> Result:
        """The result of ``call``, while the event loop goes on."""
        return await asyncio.to_thread(self._result, call)

    def _result(self, call: Call) -> Result:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self._tools)
            return f"Error: there is no tool {call.name!r}, but {known}"
        try:
            arguments = tool.validated(call.arguments)
            if self._seconds is None:
                return _shown(tool.function(**arguments))
            with self._lock:
                return self._timed(tool, arguments, self._seconds)
        except ValidationError as error:
            return f"Error: {_explained(call.name, error)}; required: {tool.wanted}"
        except (ToolUnavailable, ConnectionError) as error:
            return Broken(format_error(error))
        except (Exception, SystemExit) as error:
            return f"Error: {format_error(error)}"

    def _timed(self, tool: _Tool, arguments: Mapping[str, object], seconds: float) -> str:
        """The result of a call in a thread of its own, which is left behind where it hangs.

        Raises:
            ToolUnavailable: too many calls hang.
            Exception: whatever the function raises.
        """
        self._hanging = [thread for thread in self._hanging if thread.is_alive()]
        if len(self._hanging) >= _MOST_HANGING:
            raise ToolUnavailable(f"{len(self._hanging)} calls of tools have not returned")
        done: queue.SimpleQueue[str | BaseException] = queue.SimpleQueue()

        def call() -> None:
            try:
                done.put(_shown(tool.function(**arguments)))
            except BaseException as error:  # handed to the caller, which must not wait for ever
                done.put(error)

        # A daemon, as a function that never returns must not keep the process alive.
        thread = threading.Thread(target=copy_context().run, args=(call,), daemon=True)
        thread.start()
        try:
            found = done.get(timeout=seconds)
        except queue.Empty:
            self._hanging.append(thread)
            return f"Error: {tool.function.__name__} gave no result within {seconds:g} seconds"
        if isinstance(found, BaseException):
            raise found
        return found


@dataclass(frozen=True, slots=True)
class _Tool:
    """A function, what its arguments must be, and what a policy reads of it."""

    function: Callable[..., object]
    model: type[BaseModel]
    schema: dict[str, JsonValue]

    @classmethod
    def of(cls, function: Callable[..., object]) -> _Tool:
        name, about = function.__name__, inspect.getdoc(function)
        hints = get_type_hints(function, include_extras=True)
        parameters = inspect.signature(function).parameters
        untyped = [parameter for parameter in parameters if parameter not in hints]
        if any(
            parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            for parameter in parameters.values()
        ):
            raise InputError(
                f"the tool {name!r} takes any arguments; required: named parameters, so that a "
                "policy can be told of them"
            )
        if untyped or not about or inspect.iscoroutinefunction(function):
            found = f"no type for {', '.join(untyped)}" if untyped else "no docstring"
            what = found if untyped or not about else "an async function"
            raise InputError(
                f"the tool {name!r} has {what}; required: a plain function with a type for every "
                "parameter and a docstring, which the policy reads"
            )
        fields: dict[str, Any] = {
            one: (hints[one], ... if given.default is given.empty else given.default)
            for one, given in parameters.items()
        }
        model: type[BaseModel] = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
        described: dict[str, Any] = {
            "name": name,
            "description": about,
            "parameters": _without_titles(model.model_json_schema()),
        }
        return cls(function, model, {"type": "function", "function": described})

    def validated(self, arguments: Mapping[str, JsonValue]) -> dict[str, object]:
        """The arguments as the function takes them.

        Raises:
            ValidationError: they do not fit.
        """
        given = dict(arguments)
        try:
            model = self.model.model_validate(given)
        except ValidationError as error:
            misfits = {str(finding["loc"][0]) for finding in error.errors() if finding["loc"]}
            model = self.model.model_validate(
                {name: _read(value) if name in misfits else value for name, value in given.items()}
            )
        return {name: getattr(model, name) for name in type(model).model_fields}

    @property
    def wanted(self) -> str:
        """The arguments that it takes, in short."""
        parameters = self.model.model_json_schema()
        required = parameters.get("required", ())
        told = [
            f"{name} ({'required' if name in required else 'optional'}, "
            f"{about.get('type') or 'see its schema'})"
            for name, about in parameters.get("properties", {}).items()
        ]
        return ", ".join(told) or "no arguments"


def _shown(result: object) -> str:
    if isinstance(result, str):
        return result
    try:
        return _JSON.dump_json(result).decode()
    except ValueError:  # of a type that JSON has no form for
        return str(result)


def _read(value: JsonValue) -> JsonValue:
    """What a text says as JSON; chat templates that write arguments as texts know no types."""
    if not isinstance(value, str):
        return value
    try:
        found: JsonValue = json.loads(value)
    except (ValueError, RecursionError):
        return None if value == "None" else value
    return found


def _without_titles(schema: JsonValue) -> JsonValue:
    """A schema as providers expect it: a small model copies titles into its arguments."""
    if isinstance(schema, list):
        return [_without_titles(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: {key: _without_titles(one) for key, one in value.items()}
        if name in ("properties", "$defs") and isinstance(value, dict)
        else value
        if name in ("default", "enum", "const", "examples")
        else _without_titles(value)
        for name, value in schema.items()
        if name != "title"
    }


def _explained(name: str, error: ValidationError) -> str:
    """What is wrong with the arguments, for the policy to read."""
    findings = [
        f"{'.'.join(str(part) for part in finding['loc'])}: {finding['msg']}"
        for finding in error.errors(include_url=False, include_input=False)
    ]
    return f"the arguments do not fit {name}: {'; '.join(findings)}"
