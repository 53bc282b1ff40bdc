from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import Annotated, Literal

import pytest
from pydantic import Field, JsonValue
from waiting import PATIENCE, wait_for

from evoprompt.agents import Broken, Result, ToolCall, Tools, tools
from evoprompt.agents.tools import ToolUnavailable
from evoprompt.support.errors import InputError


def divide(a: float, b: Annotated[float, Field(description="Not zero.")] = 2.0) -> float:
    """Divides a by b."""
    return a / b


def weather(city: str, unit: Literal["C", "F"] = "C") -> dict[str, object]:
    """The weather of a city."""
    if city == "nowhere":
        raise ToolUnavailable("the weather service is down")
    if city == "offline":
        raise ConnectionError("no route to host")
    return {"city": city, "degrees": 20, "unit": unit}


def leave() -> str:
    """Ends the process."""
    raise SystemExit(3)


def result(name: str, seconds: float | None = PATIENCE, **arguments: JsonValue) -> Result:
    (found,) = Tools([divide, weather, leave], seconds)([ToolCall(name, arguments)])
    return found


@pytest.mark.parametrize("seconds", [None, PATIENCE])
def test_results_are_text_or_json(seconds: float | None) -> None:
    assert result("divide", seconds, a=1) == "0.5"
    assert result("weather", seconds, city="Ulm") == '{"city":"Ulm","degrees":20,"unit":"C"}'


@pytest.mark.parametrize("seconds", [None, PATIENCE])
def test_a_tool_sees_the_context_of_the_caller(seconds: float | None) -> None:
    tenant: ContextVar[str] = ContextVar("tenant", default="nobody")

    def whoami() -> str:
        """Return the tenant."""
        return tenant.get()

    tenant.set("the caller")
    assert Tools([whoami], seconds)([ToolCall("whoami", {})]) == ["the caller"]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("divide", {"a": 1, "b": 0}, "Error: ZeroDivisionError: float division by zero"),
        ("divide", {}, "Error: the arguments do not fit divide: a: Field required"),
        ("divide", {"a": "x"}, "Error: the arguments do not fit divide: a: Input should be"),
        ("divide", {"a": 1, "c": 1}, "c: Extra inputs are not permitted"),
        ("weather", {"city": "Ulm", "unit": "K"}, "unit: Input should be 'C' or 'F'"),
        ("add", {}, "Error: there is no tool 'add', but divide, weather, leave"),
        ("leave", {}, "Error: SystemExit: 3"),
    ],
)
@pytest.mark.parametrize("seconds", [None, PATIENCE])
def test_what_the_policy_does_wrong_is_for_it_to_read(
    name: str, arguments: dict[str, JsonValue], said: str, seconds: float | None
) -> None:
    found = result(name, seconds, **arguments)
    assert isinstance(found, str)
    assert said in found


@pytest.mark.parametrize("city", ["nowhere", "offline"])
@pytest.mark.parametrize("seconds", [None, PATIENCE])
def test_a_tool_that_is_out_of_order_is_nobodys_fault(city: str, seconds: float | None) -> None:
    assert isinstance(result("weather", seconds, city=city), Broken)


class Waiting:
    """A tool whose long calls hang until they are released."""

    late = "Error: wait gave no result within 0.5 seconds"
    long, short = ToolCall("wait", {"long": True}), ToolCall("wait", {"long": False})

    def __init__(self) -> None:
        self.release = threading.Event()
        self.call = Tools([self.wait], seconds=0.5)

    def wait(self, long: bool) -> str:
        """Waits."""
        if long:
            assert self.release.wait(PATIENCE)
        return "done"

    def answers(self) -> bool:
        """Whether a short call is answered; late where the machine stopped for too long."""
        return self.call([self.short]) == ["done"]


def test_a_tool_that_hangs_is_left_behind() -> None:
    waiting = Waiting()
    assert waiting.call([waiting.long]) == [waiting.late]
    wait_for(waiting.answers)
    assert not waiting.release.is_set()
    waiting.release.set()


def test_a_tool_of_which_too_many_calls_hang_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "_MAX_HANGING", 2)
    waiting = Waiting()
    assert waiting.call([waiting.long, waiting.long]) == [waiting.late, waiting.late]
    broken = Broken("ToolUnavailable: 2 calls of tools have not returned")
    assert waiting.call([waiting.short]) == [broken]
    waiting.release.set()
    wait_for(waiting.answers)


def test_a_policy_reads_name_description_and_parameters() -> None:
    schema, *_ = Tools([divide, weather]).schemas
    function = schema["function"]
    assert isinstance(function, dict)
    assert (function["name"], function["description"]) == ("divide", "Divides a by b.")
    parameters = function["parameters"]
    assert isinstance(parameters, dict)
    assert parameters["required"] == ["a"]
    assert parameters["properties"] == {
        "a": {"type": "number"},
        "b": {"default": 2.0, "description": "Not zero.", "type": "number"},
    }


def note(title: str, tags: list[str], rank: int | None = None) -> str:
    """Notes something."""
    return f"{title!r} {tags} {rank}"


def test_a_parameter_named_title_is_described() -> None:
    (schema,) = Tools([note]).schemas
    assert "title" not in schema["function"]["parameters"]  # type: ignore[index,call-overload,operator]
    properties = schema["function"]["parameters"]["properties"]  # type: ignore[index,call-overload]
    assert list(properties) == ["title", "tags", "rank"]  # type: ignore[arg-type]


def test_arguments_that_came_as_texts_are_read_where_no_text_is_wanted() -> None:
    given: dict[str, JsonValue] = {"title": "5", "tags": '["a", "b"]', "rank": "3"}
    assert Tools([note], None)([ToolCall("note", given)]) == ["'5' ['a', 'b'] 3"]
    (none,) = Tools([note], None)([ToolCall("note", {**given, "rank": "None"})])
    assert none == "'5' ['a', 'b'] None"


def test_a_schema_copied_into_the_arguments_is_told_what_is_wanted() -> None:
    copied: dict[str, JsonValue] = {"title": "divide", "type": "object", "required": ["a"]}
    said = result("divide", None, **copied)
    assert isinstance(said, str)
    assert said.endswith("required: a (required, number), b (optional, number)")


def silent(a: int) -> int:
    return a


def untyped(a) -> int:  # type: ignore[no-untyped-def]
    """Returns it."""
    return int(a)


def anything(**given: int) -> int:
    """Returns it."""
    return len(given)


async def later(a: int) -> int:
    """Returns it."""
    return a


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (silent, "has no docstring"),
        (untyped, "has no type for a"),
        (anything, "takes any arguments"),
        (later, "has an async function"),
    ],
)
def test_a_function_that_cannot_be_described_is_refused(function: object, said: str) -> None:
    assert callable(function)
    with pytest.raises(InputError, match=said):
        Tools([function])
