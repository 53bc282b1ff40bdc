"""Forms of tool calls in chat templates, each recognized from the text that a template writes."""

from __future__ import annotations

import ast
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from pydantic import JsonValue

from evoprompt.agents.conversation import UNNAMED, read_arguments
from evoprompt.agents.protocol import ToolCall

NAMES, KEY, VALUE = ("name_4b1f_a", "name_4b1f_b"), "key_4b1f", "value-4b1f"
"""Contents of the calls that a template has to write; the second call has a different key."""

_NAME = r"[^\s<>{}()\[\]\"',=]+"
_GAP = 200  # characters between the name of a tool and its arguments, at most
_MAX_FAULTS = 8
"""Unreadable calls after which reading stops, as each may take a scan to the end of the text."""
_CONSTANTS = {"true": True, "false": False, "null": None}
_ARGUMENTS = frozenset({"arguments", "parameters"})
_CALL_START = re.compile(
    r"""\{[^{}]{0,200}["']name["']\s*:\s*["'][^"']*["']\s*,\s*["'](?:arguments|parameters)["']\s*:"""
)
"""Beginning of an object that is meant as a call but cannot be read."""
_NAME_FIELD = re.compile(r"""["']name["']\s*:\s*["']([\w./:-]+)["']""")


@dataclass(frozen=True)
class CallForm(ABC):
    """Form in which calls are written.

    Attributes:
        opening: text before each call; empty if an action that is a call has no mark.
        requirement: description of the text after the opening.
    """

    opening: str
    requirement: ClassVar[str]

    def calls(self, action: str) -> list[ToolCall] | None:
        """Return the calls of an action, unreadable ones with a fault; None without any."""
        if self.opening not in action:
            return None
        calls: list[ToolCall] = []
        at = action.find(self.opening)
        faults = 0
        while at >= 0 and faults < _MAX_FAULTS:
            new_calls, end = self.read(action, at + len(self.opening))
            calls += new_calls
            faults += bool(new_calls and new_calls[-1].fault)
            at = action.find(self.opening, end)
        return calls

    @abstractmethod
    def read(self, action: str, at: int) -> tuple[list[ToolCall], int]:
        """Return the calls after an opening, and the position of their end."""

    def unread(self, name: str = UNNAMED, cause: str = "") -> ToolCall:
        """Return an unreadable call with a fault for the policy, which may try again."""
        reason = f" ({cause})" if cause else ""
        return ToolCall(name, {}, f"the call cannot be read{reason}; required: {self.requirement}")


@dataclass(frozen=True)
class ObjectForm(CallForm):
    """JSON object with the name and the arguments; several may follow one opening."""

    key: str = "arguments"
    name: str = "name"
    requirement: ClassVar[str] = (
        "one JSON object with the name and the arguments, texts and names in double quotes, and no "
        "comma after the last"
    )

    def calls(self, action: str) -> list[ToolCall] | None:
        """Return the calls; without a mark, only an object with name and arguments is a call."""
        if self.opening:
            return super().calls(action)
        bare = re.sub(r"^\s*(?:<[^<>\s]+>\s*)*\[?", "", action)
        value, _, _ = _json_at(bare, 0)
        if isinstance(value, dict):
            is_call = isinstance(value.get(self.name), str) and bool(_ARGUMENTS & value.keys())
        else:
            is_call = _CALL_START.match(bare) is not None
        return self.read(bare, 0)[0] if is_call else None

    def read(self, action: str, at: int) -> tuple[list[ToolCall], int]:
        """Return the calls in the objects, up to the first that is not an object."""
        calls: list[ToolCall] = []
        while True:
            value, at, cause = _json_at(action, at)
            if cause:
                following = action.find(self.opening, at) if self.opening else -1
                named = _NAME_FIELD.search(action, at, following if following >= 0 else at + _GAP)
                return [*calls, self.unread(named[1] if named else UNNAMED, cause)], at
            calls.append(self._call(value))
            separator = re.compile(r"\s*[,;]\s*(?=\{)").match(action, at)
            if separator is None:
                return calls, at
            at = separator.end()

    def _call(self, value: object) -> ToolCall:
        if not isinstance(value, dict) or not isinstance(value.get(self.name), str):
            return self.unread(cause=f"it has no {self.name}")
        name, cause = value[self.name], ""
        # Many models write the second of the two usual keys.
        key = next((usual for usual in (self.key, *_ARGUMENTS) if usual in value), "")
        if not key and value.keys() - {self.name, "type", "id"}:
            return self.unread(name, f"it has no {self.key}")
        arguments = value.get(key)
        if isinstance(arguments, str):  # some models write them as a text
            try:
                arguments = read_arguments(arguments)
            except (ValueError, RecursionError) as error:
                cause = f" ({_reason(error)})"
        if not cause and (arguments is None or isinstance(arguments, dict)):
            return ToolCall(name, arguments or {})
        fault = f"the arguments of {name} are no JSON object{cause}; required: an object with names"
        return ToolCall(name, {}, fault)


@dataclass(frozen=True)
class NamedForm(CallForm):
    """Name, then the arguments as a JSON object."""

    requirement: ClassVar[str] = "a name, then the arguments as one JSON object"

    def read(self, action: str, at: int) -> tuple[list[ToolCall], int]:
        """Return the call."""
        head = re.compile(rf"\s*({_NAME})[^{{]{{0,{_GAP}}}").match(action, at)
        if head is None:
            return [self.unread()], at
        value, end, cause = _json_at(action, head.end())
        if isinstance(value, dict):
            return [ToolCall(head[1], value)], end
        return [self.unread(head[1], cause)], end


@dataclass(frozen=True)
class LooseForm(CallForm):
    """Name, then an object of keys without quotes and of texts in special quotes.

    Attributes:
        quote: mark before and after a text.
        closing: text after the object.
    """

    quote: str = '"'
    closing: str = "}"
    requirement: ClassVar[str] = "a name, then the arguments between braces, texts in their quotes"

    def read(self, action: str, at: int) -> tuple[list[ToolCall], int]:
        """Return the call."""
        head = re.compile(rf"\s*({_NAME})\s*(?=\{{)").match(action, at)
        if head is None:
            return [self.unread()], at
        quote, closing = re.escape(self.quote), re.escape(self.closing)
        # Each token is read once, for any text after it: a run of marks takes no longer than words.
        word = rf"(?:(?!{quote}|{closing})[^\s:,{{}}\[\]])++"
        token = rf"{quote}(.*?){quote}|({closing})|({word})(\s*:)?|."
        json_text = ""
        end = head.end()
        for match in re.compile(token, re.DOTALL).finditer(action, end):
            text, closes, bare, colon = match.groups()
            end = match.start()
            if closes:
                break
            end = match.end()
            json_text += match[0] if text is None and not bare else _loose(text, bare, colon or "")
        arguments, _, _ = _json_at(json_text, 0)
        return [
            ToolCall(head[1], arguments) if isinstance(arguments, dict) else self.unread(head[1])
        ], end


def _loose(text: str | None, word: str | None, colon: str) -> str:
    """Return a text, a key or a constant as JSON."""
    if text is not None or colon:
        return json.dumps(str(word).strip("\"'") if text is None else text) + colon
    return {"None": "null", "True": "true", "False": "false"}.get(str(word), str(word))


@dataclass(frozen=True)
class PythonForm(CallForm):
    """List of calls in Python syntax.

    Attributes:
        closing: text after the list.
    """

    closing: str = ""
    requirement: ClassVar[str] = "calls as Python writes them, each argument with its name"

    def read(self, action: str, at: int) -> tuple[list[ToolCall], int]:
        """Return the calls of one list."""
        body, closed, _ = action[at:].partition(self.closing)
        end = at + len(body) + len(closed)
        # Templates do not escape the line ends of a text, which Python does not accept, and some
        # end a call with a line end.
        texts = (body, body.replace("\n", "\\n"), re.sub(r"\)\s*\n", "),\n", body))
        for text in texts if closed else ():
            try:
                parsed = ast.parse(f"[{text}]", mode="eval").body
                assert isinstance(parsed, ast.List)
                return [_python_call(element) or self.unread() for element in parsed.elts], end
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
        return [self.unread()], end


@dataclass(frozen=True)
class FieldForm(CallForm):
    r"""Name, then each argument between marks; texts are unquoted, all other values are JSON.

    Attributes:
        key: text before the name of an argument.
        value: text between its name and its value.
        end: text after its value.
        closing: text after all arguments.
        named: text after the name, before the first argument.
    """

    key: str = ""
    value: str = ""
    end: str = ""
    closing: str = ""
    named: str = ""
    requirement: ClassVar[str] = (
        "a name, then each argument between its marks, and all marks closed"
    )
    _field: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        key, value, end = map(_spaced, (self.key, self.value, self.end))
        line = r"\n?" if "\n" in self.value[len(self.value.rstrip()) :] else ""
        pattern = rf"\s*{key}([^<>\n]*?){value}{line}(.*?){line}{end}"
        object.__setattr__(self, "_field", re.compile(pattern, re.DOTALL))

    def read(self, action: str, at: int) -> tuple[list[ToolCall], int]:
        """Return the call."""
        head = re.compile(rf"\s*({_NAME})[\"'>]*(?:\s*{_spaced(self.named)})?").match(action, at)
        if head is None:
            return [self.unread()], at
        arguments: dict[str, JsonValue] = {}
        at = head.end()
        while match := self._field.match(action, at):
            arguments[match[1].strip()] = match[2]
            at = match.end()
        closed = re.compile(rf"\s*{_spaced(self.closing)}").match(action, at)
        if closed is None:
            return [self.unread(head[1])], at
        return [ToolCall(head[1], arguments)], closed.end()


def form_of(single: str, both: str) -> CallForm | None:
    """Return the form of the calls that a template wrote; None if it is not a known form.

    Args:
        single: an action with a call of the first of ``NAMES``.
        both: an action with a call of each, empty if the template permits one call at a time.
    """
    key = single.rfind(KEY)
    value = single.find(VALUE, key)
    bare = _object_form(single)
    if bare is not None:
        return bare
    name = single.rfind(NAMES[0], 0, key)
    if min(name, key, value) < 0:
        return None
    opening = _opening(single[:name])
    second = both.rfind(NAMES[1], 0, both.rfind(KEY))
    other = _opening(both[:second]) if second >= 0 else ""
    opening = (_common_suffix(opening, other) or opening).lstrip(">")  # the end of an earlier mark
    between, after = single[name + len(NAMES[0]) : key], single[value + len(VALUE) :]
    joint = single[key + len(KEY) : value]
    if opening in ("", "["):
        return None
    if "{" in between and _json_at(single, single.rfind("{", 0, key))[0] == {KEY: VALUE}:
        return NamedForm(opening)
    if between == "{":
        quote = joint.strip()[1:].strip()
        return LooseForm(opening, quote, _mark(after.removeprefix(quote)))
    if between == "(":
        return PythonForm(opening, after[after.find(")") + 1 :].split("<")[0] + _mark(after))
    marks = re.match(r"\s*<[^<>]+>", after)
    if marks is None or not joint:
        return None
    start = re.search(r"<[^<>]*>?$", between)
    final = re.match(r"\s*<[^<>]+>", after[marks.end() :])
    if start is None or final is None:
        return None
    named = between[: start.start()].lstrip("\"'> \n").rstrip()
    return FieldForm(opening, start.group(), joint, marks.group(), final.group(), named)


def _object_form(single: str) -> ObjectForm | None:
    for match in re.finditer(r"\{", single):
        call, _, _ = _json_at(single, match.start())
        items = call.items() if isinstance(call, dict) else ()
        names = [key for key, value in items if value == NAMES[0]]
        keys = [key for key, value in items if value == {KEY: VALUE}]
        if names and keys:
            before = re.search(r"\S*(?=\s*$)", single[: match.start()])
            opening = before.group() if before else ""
            return ObjectForm("" if opening == "[" else opening, keys[0], names[0])
    return None


def _opening(before: str) -> str:
    """Return the mark at the end of ``before``: an open tag, or a run without spaces."""
    match = re.search(r"<[^<>]*$|\S*$", before)
    return match.group() if match else ""


def _common_suffix(text: str, other: str) -> str:
    length = 0
    while length < min(len(text), len(other)) and text[-length - 1] == other[-length - 1]:
        length += 1
    return text[len(text) - length :]


def _mark(text: str) -> str:
    match = re.search(r"<[^<>]+>", text)
    return match.group() if match else ""


def _spaced(text: str) -> str:
    """Return a pattern for ``text`` with any white space, or none, around its marks."""
    return r"\s*".join(map(re.escape, text.split()))


def _json_at(text: str, at: int) -> tuple[object, int, str]:
    """Return the JSON value at a position, its end, and the reason if there is none."""
    start = at
    while text[start : start + 1].isspace():
        start += 1
    try:
        return *json.JSONDecoder().raw_decode(text, start), ""
    except (ValueError, RecursionError) as error:
        return None, at, _reason(error, start)


def _reason(error: Exception, start: int = 0) -> str:
    """Return the reason why a text is not JSON, without quoting it, as it may contain marks."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos - start + 1}"
    return str(error)


def _python_call(node: ast.expr) -> ToolCall | None:
    if not isinstance(node, ast.Call) or node.args:
        return None
    try:
        arguments: Mapping[str, JsonValue] = {
            str(keyword.arg): ast.literal_eval(_Constants().visit(keyword.value))
            for keyword in node.keywords
        }
    except (ValueError, TypeError):
        return None
    return ToolCall(ast.unparse(node.func), dict(arguments))


class _Constants(ast.NodeTransformer):
    """Replacement of JSON's names of constants by their values."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return the constant, if the name is that of a constant."""
        is_constant = node.id in _CONSTANTS
        return ast.Constant(_CONSTANTS[node.id]) if is_constant else node
