"""Typed Python functions as tools; a policy reads their signatures and docstrings."""

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
from evoprompt.agents.protocol import ToolCall
from evoprompt.support.errors import EvopromptError, InputError
from evoprompt.support.text import format_error

_JSON: TypeAdapter[object] = TypeAdapter(object)
_MAX_HANGING = 16
"""Number of calls that hang from which a tool counts as broken; each occupies a thread."""


class ToolUnavailable(EvopromptError, RuntimeError):  # noqa: N818
    """A tool is out of order for any arguments: its episodes end without a score."""


class Tools:
    """Caller of functions by name, with arguments that fit their signatures.

    Every error of the policy is a result that it may read, beginning with ``Error:``: arguments
    that do not fit, an unknown name, a function that raises or takes too long. Only
    :class:`ToolUnavailable` and ``ConnectionError`` mean that the tool broke.

    Args:
        functions: functions with a type for every parameter and a docstring, which the policy
            reads. A returned text is shown unchanged, any other value as JSON.
        seconds: maximum time of a call; functions then run in a separate thread. None calls them
            in the thread of the caller, without a limit.

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
        """Return the schemas of the tools for chat templates, in the form of OpenAI's API."""
        return [tool.schema for tool in self._tools.values()]

    @property
    def descriptions(self) -> dict[str, str]:
        """Return the description of each tool, its docstring, by name."""
        return {name: inspect.getdoc(tool.function) or "" for name, tool in self._tools.items()}

    def __call__(self, calls: Sequence[ToolCall]) -> list[Result]:
        """Return the results of ``calls``, which run one after another."""
        return [self._result(call) for call in calls]

    async def one(self, call: ToolCall) -> Result:
        """Return the result of ``call`` without blocking the event loop."""
        return await asyncio.to_thread(self._result, call)

    def _result(self, call: ToolCall) -> Result:
        tool = self._tools.get(call.name)
        if tool is None:
            names = ", ".join(self._tools)
            return f"Error: there is no tool {call.name!r}, but {names}"
        try:
            arguments = tool.validated(call.arguments)
            if self._seconds is None:
                return _as_text(tool.function(**arguments))
            with self._lock:
                return self._timed(tool, arguments, self._seconds)
        except ValidationError as error:
            return f"Error: {_explain_error(call.name, error)}; required: {tool.requirement}"
        except (ToolUnavailable, ConnectionError) as error:
            return Broken(format_error(error))
        except (Exception, SystemExit) as error:
            return f"Error: {format_error(error)}"

    def _timed(self, tool: _Tool, arguments: Mapping[str, object], seconds: float) -> str:
        """Return the result of a call in a separate thread, which is abandoned if it hangs.

        Raises:
            ToolUnavailable: too many calls hang.
            Exception: any error that the function raises.
        """
        self._hanging = [thread for thread in self._hanging if thread.is_alive()]
        if len(self._hanging) >= _MAX_HANGING:
            raise ToolUnavailable(f"{len(self._hanging)} calls of tools have not returned")
        done: queue.SimpleQueue[str | BaseException] = queue.SimpleQueue()

        def call() -> None:
            try:
                done.put(_as_text(tool.function(**arguments)))
            except BaseException as error:  # passed to the caller, which must not wait forever
                done.put(error)

        # A daemon thread, as a function that never returns must not block the end of the process.
        thread = threading.Thread(target=copy_context().run, args=(call,), daemon=True)
        thread.start()
        try:
            outcome = done.get(timeout=seconds)
        except queue.Empty:
            self._hanging.append(thread)
            return f"Error: {tool.function.__name__} gave no result within {seconds:g} seconds"
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


@dataclass(frozen=True, slots=True)
class _Tool:
    """Function with the model of its arguments, and its description for a policy."""

    function: Callable[..., object]
    model: type[BaseModel]
    schema: dict[str, JsonValue]

    @classmethod
    def of(cls, function: Callable[..., object]) -> _Tool:
        name, docstring = function.__name__, inspect.getdoc(function)
        hints = get_type_hints(function, include_extras=True)
        parameters = inspect.signature(function).parameters
        untyped = [parameter for parameter in parameters if parameter not in hints]
        if any(
            parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            for parameter in parameters.values()
        ):
            raise InputError(
                f"the tool {name!r} takes any arguments; required: named parameters, so that a "
                "policy can read a description of them"
            )
        if untyped or not docstring or inspect.iscoroutinefunction(function):
            deficit = f"no type for {', '.join(untyped)}" if untyped else "no docstring"
            finding = deficit if untyped or not docstring else "an async function"
            raise InputError(
                f"the tool {name!r} has {finding}; required: a plain function with a type for "
                "every parameter and a docstring, which the policy reads"
            )
        fields: dict[str, Any] = {
            key: (hints[key], ... if parameter.default is parameter.empty else parameter.default)
            for key, parameter in parameters.items()
        }
        model: type[BaseModel] = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
        described: dict[str, Any] = {
            "name": name,
            "description": docstring,
            "parameters": _without_titles(model.model_json_schema()),
        }
        return cls(function, model, {"type": "function", "function": described})

    def validated(self, arguments: Mapping[str, JsonValue]) -> dict[str, object]:
        """Return the arguments in the types of the function.

        Raises:
            ValidationError: the arguments do not fit.
        """
        values = dict(arguments)
        try:
            model = self.model.model_validate(values)
        except ValidationError as error:
            misfits = {str(finding["loc"][0]) for finding in error.errors() if finding["loc"]}
            model = self.model.model_validate(
                {
                    name: _parse_text(value) if name in misfits else value
                    for name, value in values.items()
                }
            )
        return {name: getattr(model, name) for name in type(model).model_fields}

    @property
    def requirement(self) -> str:
        """Return a short description of the arguments."""
        parameters = self.model.model_json_schema()
        required = parameters.get("required", ())
        descriptions = [
            f"{name} ({'required' if name in required else 'optional'}, "
            f"{schema.get('type') or 'see its schema'})"
            for name, schema in parameters.get("properties", {}).items()
        ]
        return ", ".join(descriptions) or "no arguments"


def _as_text(result: object) -> str:
    if isinstance(result, str):
        return result
    try:
        return _JSON.dump_json(result).decode()
    except ValueError:  # a type that JSON cannot represent
        return str(result)


def _parse_text(value: JsonValue) -> JsonValue:
    """Parse a text as JSON; chat templates that write arguments as texts have no types."""
    if not isinstance(value, str):
        return value
    try:
        parsed: JsonValue = json.loads(value)
    except (ValueError, RecursionError):
        return None if value == "None" else value
    return parsed


def _without_titles(schema: JsonValue) -> JsonValue:
    """Return a schema as providers expect it: a small model copies titles into its arguments."""
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: {key: _without_titles(item) for key, item in value.items()}
        if name in ("properties", "$defs") and isinstance(value, dict)
        else value
        if name in ("default", "enum", "const", "examples")
        else _without_titles(value)
        for name, value in schema.items()
        if name != "title"
    }


def _explain_error(name: str, error: ValidationError) -> str:
    """Return the errors of the arguments, for the policy to read."""
    findings = [
        f"{'.'.join(str(part) for part in finding['loc'])}: {finding['msg']}"
        for finding in error.errors(include_url=False, include_input=False)
    ]
    return f"the arguments do not fit {name}: {'; '.join(findings)}"
