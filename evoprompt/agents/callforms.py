"""The forms in which chat templates write tool calls, each read off what a template writes."""

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
from evoprompt.agents.protocol import Call

NAMES, KEY, VALUE = ("name_4b1f_a", "name_4b1f_b"), "key_4b1f", "value-4b1f"
"""What the calls hold that a template is made to write; the key of the second call is another."""

_NAME = r"[^\s<>{}()\[\]\"',=]+"
_GAP = 200  # characters between the name of a tool and its arguments, at most
_MOST_FAULTS = 8
"""Calls that cannot be read, after which no further one is: each may have been read to the end."""
_CONSTANTS = {"true": True, "false": False, "null": None}
_ARGUMENTS = frozenset({"arguments", "parameters"})
_BEGUN = re.compile(
    r"""\{[^{}]{0,200}["']name["']\s*:\s*["'][^"']*["']\s*,\s*["'](?:arguments|parameters)["']\s*:"""
)
"""How an object begins that was meant as a call, though it cannot be read."""
_NAMED = re.compile(r"""["']name["']\s*:\s*["']([\w./:-]+)["']""")


@dataclass(frozen=True)
class CallForm(ABC):
    """How calls are written.

    Attributes:
        opening: text before each of them; empty where an action that is a call has no mark.
        wanted: what follows it, in words.
    """

    opening: str
    wanted: ClassVar[str]

    def calls(self, said: str) -> list[Call] | None:
        """The calls of an action, with a fault where one cannot be read; no list without any."""
        if self.opening not in said:
            return None
        found: list[Call] = []
        at = said.find(self.opening)
        faults = 0
        while at >= 0 and faults < _MOST_FAULTS:
            calls, end = self.read(said, at + len(self.opening))
            found += calls
            faults += bool(calls and calls[-1].fault)
            at = said.find(self.opening, end)
        return found

    @abstractmethod
    def read(self, said: str, at: int) -> tuple[list[Call], int]:
        """The calls that follow an opening, and where they end."""

    def unread(self, name: str = UNNAMED, why: str = "") -> Call:
        """A call that cannot be read, which the policy is told and may make again."""
        reason = f" ({why})" if why else ""
        return Call(name, {}, f"the call cannot be read{reason}; required: {self.wanted}")


@dataclass(frozen=True)
class ObjectForm(CallForm):
    """A JSON object with the name and the arguments; several in a row may follow one opening."""

    key: str = "arguments"
    name: str = "name"
    wanted: ClassVar[str] = (
        "one JSON object with the name and the arguments, texts and names in double quotes, and no "
        "comma after the last"
    )

    def calls(self, said: str) -> list[Call] | None:
        """The calls; without a mark, only an object with a name and arguments is one."""
        if self.opening:
            return super().calls(said)
        bare = re.sub(r"^\s*(?:<[^<>\s]+>\s*)*\[?", "", said)
        given, _, _ = _json_at(bare, 0)
        if isinstance(given, dict):
            is_call = isinstance(given.get(self.name), str) and bool(_ARGUMENTS & given.keys())
        else:
            is_call = _BEGUN.match(bare) is not None
        return self.read(bare, 0)[0] if is_call else None

    def read(self, said: str, at: int) -> tuple[list[Call], int]:
        """The objects, up to the first that is none."""
        calls: list[Call] = []
        while True:
            given, at, why = _json_at(said, at)
            if why:
                following = said.find(self.opening, at) if self.opening else -1
                named = _NAMED.search(said, at, following if following >= 0 else at + _GAP)
                return [*calls, self.unread(named[1] if named else UNNAMED, why)], at
            calls.append(self._call(given))
            more = re.compile(r"\s*[,;]\s*(?=\{)").match(said, at)
            if more is None:
                return calls, at
            at = more.end()

    def _call(self, given: object) -> Call:
        if not isinstance(given, dict) or not isinstance(given.get(self.name), str):
            return self.unread(why=f"it has no {self.name}")
        name, why = given[self.name], ""
        # Many models write the other of the two usual keys.
        key = next((one for one in (self.key, *_ARGUMENTS) if one in given), "")
        if not key and given.keys() - {self.name, "type", "id"}:
            return self.unread(name, f"it has no {self.key}")
        arguments = given.get(key)
        if isinstance(arguments, str):  # some models write them as a text
            try:
                arguments = read_arguments(arguments)
            except (ValueError, RecursionError) as error:
                why = f" ({_reason(error)})"
        if not why and (arguments is None or isinstance(arguments, dict)):
            return Call(name, arguments or {})
        fault = f"the arguments of {name} are no JSON object{why}; required: an object with names"
        return Call(name, {}, fault)


@dataclass(frozen=True)
class NamedForm(CallForm):
    """The name, then the arguments as a JSON object."""

    wanted: ClassVar[str] = "a name, then the arguments as one JSON object"

    def read(self, said: str, at: int) -> tuple[list[Call], int]:
        """The call."""
        head = re.compile(rf"\s*({_NAME})[^{{]{{0,{_GAP}}}").match(said, at)
        if head is None:
            return [self.unread()], at
        given, end, why = _json_at(said, head.end())
        if isinstance(given, dict):
            return [Call(head[1], given)], end
        return [self.unread(head[1], why)], end


@dataclass(frozen=True)
class LooseForm(CallForm):
    """The name, then an object whose keys have no quotes, and whose texts have quotes of their own.

    Attributes:
        quote: before and after a text.
        closing: stands after the object.
    """

    quote: str = '"'
    closing: str = "}"
    wanted: ClassVar[str] = "a name, then the arguments between braces, texts in their quotes"

    def read(self, said: str, at: int) -> tuple[list[Call], int]:
        """The call."""
        head = re.compile(rf"\s*({_NAME})\s*(?=\{{)").match(said, at)
        if head is None:
            return [self.unread()], at
        quote, closing = re.escape(self.quote), re.escape(self.closing)
        # Each token is read once, whatever follows it: a run of marks takes no longer than words.
        word = rf"(?:(?!{quote}|{closing})[^\s:,{{}}\[\]])++"
        token = rf"{quote}(.*?){quote}|({closing})|({word})(\s*:)?|."
        given = ""
        end = head.end()
        for one in re.compile(token, re.DOTALL).finditer(said, end):
            text, closes, bare, colon = one.groups()
            end = one.start()
            if closes:
                break
            end = one.end()
            given += one[0] if text is None and not bare else _loose(text, bare, colon or "")
        found, _, _ = _json_at(given, 0)
        return [Call(head[1], found) if isinstance(found, dict) else self.unread(head[1])], end


def _loose(text: str | None, word: str | None, colon: str) -> str:
    """A text, a key or a constant as JSON has it."""
    if text is not None or colon:
        return json.dumps(str(word).strip("\"'") if text is None else text) + colon
    return {"None": "null", "True": "true", "False": "false"}.get(str(word), str(word))


@dataclass(frozen=True)
class PythonForm(CallForm):
    """A list of calls as Python writes them.

    Attributes:
        closing: stands after the list.
    """

    closing: str = ""
    wanted: ClassVar[str] = "calls as Python writes them, each argument with its name"

    def read(self, said: str, at: int) -> tuple[list[Call], int]:
        """The calls of one list."""
        body, closed, _ = said[at:].partition(self.closing)
        end = at + len(body) + len(closed)
        # Templates write the line ends of a text as they are, which Python does not take, and some
        # end a call with one.
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
    r"""The name, then each argument between marks; texts stand as they are, all else as JSON.

    Attributes:
        key: stands before the name of an argument.
        value: between its name and its value.
        end: after its value.
        closing: after all arguments.
        named: after the name, before the first of them.
    """

    key: str = ""
    value: str = ""
    end: str = ""
    closing: str = ""
    named: str = ""
    wanted: ClassVar[str] = "a name, then each argument between its marks, and all marks closed"
    _field: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        key, value, end = map(_spaced, (self.key, self.value, self.end))
        line = r"\n?" if "\n" in self.value[len(self.value.rstrip()) :] else ""
        pattern = rf"\s*{key}([^<>\n]*?){value}{line}(.*?){line}{end}"
        object.__setattr__(self, "_field", re.compile(pattern, re.DOTALL))

    def read(self, said: str, at: int) -> tuple[list[Call], int]:
        """The call."""
        head = re.compile(rf"\s*({_NAME})[\"'>]*(?:\s*{_spaced(self.named)})?").match(said, at)
        if head is None:
            return [self.unread()], at
        arguments: dict[str, JsonValue] = {}
        at = head.end()
        while found := self._field.match(said, at):
            arguments[found[1].strip()] = found[2]
            at = found.end()
        closed = re.compile(rf"\s*{_spaced(self.closing)}").match(said, at)
        if closed is None:
            return [self.unread(head[1])], at
        return [Call(head[1], arguments)], closed.end()


def form_of(one: str, both: str) -> CallForm | None:
    """The form of the calls in what a template wrote; None if it is none of these.

    Args:
        one: an action with a call of the first of ``NAMES``.
        both: one with a call of each of them, empty where the template takes one at a time.
    """
    key = one.rfind(KEY)
    value = one.find(VALUE, key)
    bare = _object_form(one)
    if bare is not None:
        return bare
    name = one.rfind(NAMES[0], 0, key)
    if min(name, key, value) < 0:
        return None
    opening = _opening(one[:name])
    second = both.rfind(NAMES[1], 0, both.rfind(KEY))
    other = _opening(both[:second]) if second >= 0 else ""
    opening = (_common_suffix(opening, other) or opening).lstrip(">")  # the end of another mark
    between, after = one[name + len(NAMES[0]) : key], one[value + len(VALUE) :]
    joint = one[key + len(KEY) : value]
    if opening in ("", "["):
        return None
    if "{" in between and _json_at(one, one.rfind("{", 0, key))[0] == {KEY: VALUE}:
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
    rest = re.match(r"\s*<[^<>]+>", after[marks.end() :])
    if start is None or rest is None:
        return None
    named = between[: start.start()].lstrip("\"'> \n").rstrip()
    return FieldForm(opening, start.group(), joint, marks.group(), rest.group(), named)


def _object_form(one: str) -> ObjectForm | None:
    for match in re.finditer(r"\{", one):
        call, _, _ = _json_at(one, match.start())
        items = call.items() if isinstance(call, dict) else ()
        names = [key for key, value in items if value == NAMES[0]]
        keys = [key for key, value in items if value == {KEY: VALUE}]
        if names and keys:
            before = re.search(r"\S*(?=\s*$)", one[: match.start()])
            opening = before.group() if before else ""
            return ObjectForm("" if opening == "[" else opening, keys[0], names[0])
    return None


def _opening(before: str) -> str:
    """The mark at the end of ``before``: an open tag, or what has no space in it."""
    found = re.search(r"<[^<>]*$|\S*$", before)
    return found.group() if found else ""


def _common_suffix(one: str, other: str) -> str:
    length = 0
    while length < min(len(one), len(other)) and one[-length - 1] == other[-length - 1]:
        length += 1
    return one[len(one) - length :]


def _mark(text: str) -> str:
    found = re.search(r"<[^<>]+>", text)
    return found.group() if found else ""


def _spaced(text: str) -> str:
    """A pattern for ``text`` with other white space, or none, around its marks."""
    return r"\s*".join(map(re.escape, text.split()))


def _json_at(text: str, at: int) -> tuple[object, int, str]:
    """The JSON value at a place, where it ends, and why there is none."""
    start = at
    while text[start : start + 1].isspace():
        start += 1
    try:
        return *json.JSONDecoder().raw_decode(text, start), ""
    except (ValueError, RecursionError) as error:
        return None, at, _reason(error, start)


def _reason(error: Exception, start: int = 0) -> str:
    """Why a text is no JSON; none of it is repeated, as it may hold marks."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos - start + 1}"
    return str(error)


def _python_call(node: ast.expr) -> Call | None:
    if not isinstance(node, ast.Call) or node.args:
        return None
    try:
        given: Mapping[str, JsonValue] = {
            str(keyword.arg): ast.literal_eval(_Constants().visit(keyword.value))
            for keyword in node.keywords
        }
    except (ValueError, TypeError):
        return None
    return Call(ast.unparse(node.func), dict(given))


class _Constants(ast.NodeTransformer):
    """Puts values in the place of the names that JSON has for them."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A constant, if it is one."""
        known = node.id in _CONSTANTS
        return ast.Constant(_CONSTANTS[node.id]) if known else node
