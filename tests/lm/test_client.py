"""The language model against a real HTTP server that misbehaves by script."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hanging import Hang, hanging
from waiting import PATIENCE

from evoprompt.lm import (
    BudgetError,
    Charge,
    DeadlineError,
    LanguageModel,
    LmCall,
    LmError,
    LmSettings,
    ProgramOutput,
    ReplayError,
    split_settings,
)
from evoprompt.support.errors import InputError
from evoprompt.testing.openai_server import (
    Answer as Scripted,
)
from evoprompt.testing.openai_server import (
    Body,
    Drop,
    OpenAIServer,
    Status,
    Text,
    chat_fields,
)

pytestmark = pytest.mark.lm

GOOD = chat_fields(words=["one", "two"])
AT_ONCE = {"Retry-After": "0"}


def program() -> Any:
    import dspy

    fields = {"topic": (str, dspy.InputField()), "words": (list[str], dspy.OutputField())}
    return dspy.Predict(dspy.Signature(fields, "Write words about a topic."))


def call(topic: str = "sea") -> LmCall:
    return LmCall(program, {"topic": topic})


def model(server: OpenAIServer, **changes: Any) -> LanguageModel:
    return LanguageModel(
        LmSettings.model_validate(
            {"model": "openai/scripted", "api_base": server.url, "max_tokens": 100, **changes}
        )
    )


def replay(record: Path) -> LanguageModel:
    return LanguageModel(LmSettings(model="openai/scripted", max_tokens=100, replay=record))


def ask(
    script: Sequence[Scripted], default: Scripted = GOOD, **changes: Any
) -> ProgramOutput | LmError:
    with OpenAIServer(script, default) as server:
        return model(server, **changes).ask([call()])[0]


def words(answer: ProgramOutput | LmError) -> list[str]:
    assert isinstance(answer, ProgramOutput), answer
    found: list[str] = answer.fields["words"]
    return found


def test_settings_reach_the_server_and_answers_are_parsed_in_a_running_loop_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import dspy

    async def inside(language: LanguageModel) -> list[ProgramOutput | LmError]:
        return language.ask([call()])

    monkeypatch.setenv("MY_KEY", "sk-mine")
    before = dspy.settings.lm
    with OpenAIServer([], GOOD) as server:
        language = model(server, temperature=0.3, api_key_env="MY_KEY")
        assert asyncio.run(inside(language)) == [ProgramOutput({"words": ["one", "two"]})]
        estimate = language.estimate(11, 3000, 1000)
        (asked,) = server.requests
    assert dspy.settings.lm is before
    assert asked.authorization == "Bearer sk-mine"
    assert asked.body["temperature"] == 0.3
    assert 100 in (asked.body.get("max_tokens"), asked.body.get("max_completion_tokens"))
    assert asked.body["model"] == "scripted"
    assert str(estimate).startswith("about 11 calls, 44,000 tokens")


@pytest.mark.parametrize("name", ["openai/scripted", "litellm_proxy/scripted"])
@pytest.mark.parametrize(
    "failure",
    [Status(429, AT_ONCE), Status(500, AT_ONCE), Status(503, AT_ONCE), Drop()],
    ids=["rate limit", "server error", "overloaded", "dropped"],
)
def test_passing_failures_are_retried(failure: Scripted, name: str) -> None:
    with OpenAIServer([failure], GOOD) as server:
        language = model(server, model=name)
        assert words(language.ask([call()])[0]) == ["one", "two"]
        assert len(server.requests) == 2
    assert language.spending.spent.calls == 2


@pytest.mark.parametrize(
    ("status", "settings", "sent"),
    [
        (Status(401), {}, 1),
        (Status(429, AT_ONCE), {"retries": 2}, 3),
        (Status(429, AT_ONCE), {"retries": 9, "budget": {"calls": 4}}, 4),
        (Status(429, {"Retry-After": "3600"}), {"deadline": PATIENCE}, 1),
    ],
    ids=["it lasts", "retries", "a budget", "nobody waits that long"],
)
def test_retries_end_and_are_paid_for(status: Status, settings: dict[str, Any], sent: int) -> None:
    with OpenAIServer([], status) as server:
        language = model(server, **settings)
        (answer,) = language.ask([call()])
        assert isinstance(answer, BudgetError if "budget" in settings else LmError)
        assert len(server.requests) == sent
    assert language.spending.spent == Charge(sent)  # refused requests cost no tokens


@pytest.mark.parametrize(
    "nonsense",
    [Body(b""), Body(b"<html>sorry</html>"), Body(b'{"choices": ['), Body(b'{"choices": []}')],
    ids=["nothing", "html", "cut off", "no choices"],
)
def test_nonsense_from_the_server_is_an_error(nonsense: Body) -> None:
    assert isinstance(ask([], nonsense), LmError)


def test_an_answer_that_ignores_the_format_is_asked_again_as_json() -> None:
    assert words(ask(["I like the sea.", '{"words": ["json"]}'])) == ["json"]
    error = str(ask([], "I like the sea."))
    assert "the answer was 'I like the sea.'; required: the fields words" in error
    assert "name another model as writer (--lm" in error


@pytest.mark.parametrize(
    "thought",
    [
        f"<think>\n{chat_fields(words=['draft'])}</think>\n\n",
        "\u25c1think\u25b7Hm.\u25c1/think\u25b7",
    ],
    ids=["a draft", "other marks"],
)
def test_what_a_model_drafts_in_its_thought_is_no_field_of_its_answer(thought: str) -> None:
    assert words(ask([thought + GOOD])) == ["one", "two"]


def test_an_answer_cut_at_max_tokens_is_marked() -> None:
    cut = Text('[[ ## words ## ]]\n["one", "tw', finish_reason="length")
    answer = ask([cut])
    assert isinstance(answer, ProgramOutput)
    assert answer.truncated


@pytest.mark.parametrize(
    "text", ["", "   ", "<think>Words about the sea are", "<think>a</think>\n"]
)
def test_a_limit_that_is_spent_on_a_thought_is_reported_as_max_tokens(
    tmp_path: Path, text: str
) -> None:
    record = tmp_path / "lm.jsonl"
    with OpenAIServer([], Text(text, finish_reason="length")) as server:
        answer = model(server, record=str(record)).ask([call()])[0]
        assert len(server.requests) == 1
    for error in (answer, replay(record).ask([call()])[0]):
        assert isinstance(error, LmError)
        assert "cut at 100 tokens, all of which the model spent on its thought" in str(error)
        assert "raise lm.max_tokens" in str(error)


@pytest.mark.parametrize(("text", "read"), [("half \ud83d", "half \ufffd"), ("\ud83d\ude00", "😀")])
def test_half_a_character_in_what_is_asked_fails_no_call(
    tmp_path: Path, text: str, read: str
) -> None:
    """As in the reason of a reward, or in what a policy wrote."""
    record = tmp_path / "lm.jsonl"
    with OpenAIServer([], GOOD) as server:
        assert words(model(server, record=str(record)).ask([call(text)])[0]) == ["one", "two"]
        assert read in server.requests[0].body["messages"][-1]["content"]
    assert words(replay(record).ask([call(text)])[0]) == ["one", "two"]


def leave(prompt: str) -> str:
    raise SystemExit(3)


async def leave_later(prompt: str) -> str:
    raise SystemExit("no licence")


@pytest.mark.parametrize("function", [leave, leave_later])
def test_an_exit_of_a_function_is_an_error_that_names_it(function: Any) -> None:
    language = LanguageModel(LmSettings(model="python/leaves"), connection=function)
    for _ in range(2):  # the loop that all calls share goes on
        answers = language.ask([call(), call()])
        assert all("would end the process (SystemExit: " in str(answer) for answer in answers)
        assert f"the language model {function.__name__} of module" in str(answers[0])


@pytest.mark.filterwarnings("ignore:Implementing custom LMs")
def test_an_exit_of_a_model_of_dspy_is_an_error() -> None:
    import dspy

    class Leaves(dspy.LM):  # type: ignore[misc]
        async def aforward(self, *arguments: Any, **settings: Any) -> Any:
            raise SystemExit(4)

        def copy(self, **changes: Any) -> Any:
            return self

    given = Leaves("openai/leaves", api_key="none")
    language = LanguageModel(LmSettings(model="openai/leaves"), connection=given)
    for _ in range(2):
        assert "SystemExit: 4" in str(language.ask([call()])[0])


def test_a_function_that_does_not_return_is_named() -> None:
    held: list[Hang] = []

    def hang_up(prompt: str) -> str:
        held[0].wait()
        return ""

    language = LanguageModel(LmSettings(model="python/hangs"), connection=hang_up)
    with hanging(f"the language model hang_up of module {__name__} has not") as hang:
        held.append(hang)
        language.ask([call()])
    assert hang.lines


def test_an_empty_answer_that_ended_by_itself_is_no_matter_of_max_tokens() -> None:
    answer = ask([], Text("", finish_reason="stop"))
    assert isinstance(answer, LmError)
    assert "max_tokens" not in str(answer)


def test_an_answer_of_many_megabytes_is_refused_before_it_is_read() -> None:
    with OpenAIServer([], chat_fields(words=["one " * 5_000_000])) as server:
        language = model(server)
        answer = language.ask([call()])[0]
        assert len(server.requests) == 1
    assert isinstance(answer, LmError)
    assert "20,000," in str(answer)
    assert "100 tokens" in str(answer)
    assert language.spending.spent.calls == 1


def test_a_dripping_answer_ends_at_the_deadline_is_paid_in_full_and_replayed(
    tmp_path: Path,
) -> None:
    record = tmp_path / "lm.jsonl"
    dripping = Text(GOOD, seconds=1.0, pieces=300)  # nobody waits for it to its end
    with OpenAIServer([], dripping) as server:
        for deadline in (0.3, 1.0, 3.0, 10.0, 30.0, 100.0):
            language = model(server, deadline=deadline, timeout=PATIENCE, record=str(record))
            (answer,) = language.ask([call()])
            if server.requests:  # it has heard of the call
                break
    assert isinstance(answer, DeadlineError)
    assert language.spending.spent.calls == 1
    assert language.spending.spent.output_tokens == 100
    assert isinstance(replay(record).ask([call()])[0], DeadlineError)


def test_one_failing_call_does_not_harm_the_others() -> None:
    def fail_on_fire(body: Any) -> str | Status:
        return Status(400) if "fire" in body["messages"][-1]["content"] else GOOD

    with OpenAIServer([], fail_on_fire) as server:
        answers = model(server).ask([call("sea"), call("fire"), call("wind")])
    assert [isinstance(answer, ProgramOutput) for answer in answers] == [True, False, True]


@pytest.mark.parametrize("way", ["def", "async def", "list"])
def test_a_function_of_a_prompt_is_asked_and_limited_like_a_model(way: str) -> None:
    asked: list[str] = []

    def answer(prompt: str) -> Any:
        asked.append(prompt)
        return [GOOD] if way == "list" else GOOD

    async def waiting(prompt: str) -> Any:
        return answer(prompt)

    settings, given = split_settings(
        {"model": waiting if way == "async def" else answer, "budget": {"calls": 1}}
    )
    language = LanguageModel(LmSettings.model_validate(settings), connection=given)
    language.check(probe=False)
    assert words(language.ask([call()])[0]) == ["one", "two"]
    assert "Write words about a topic." in asked[0]
    assert "sea" in asked[0]
    assert isinstance(language.ask([call()])[0], BudgetError)
    assert len(asked) == 1


def test_what_is_no_language_model_is_refused() -> None:
    with pytest.raises(InputError, match=r"lm is 7; required: a name such as .* a function of a"):
        split_settings(7)  # type: ignore[arg-type]
    silent = LanguageModel(LmSettings(model="python/silent"), connection=lambda prompt: None)
    assert "returned None; required: a function" in str(silent.ask([call()])[0])


def test_a_recording_replays_without_a_server(tmp_path: Path) -> None:
    script: list[Scripted] = [
        Status(500, AT_ONCE),
        chat_fields(words=["first"]),
        chat_fields(words=["second"]),
    ]
    record = tmp_path / "lm.jsonl"
    with OpenAIServer(script, Status(400)) as server:
        live = model(server, record=str(record))
        recorded = [live.ask([call()])[0] for _ in range(3)]
    replayed = replay(record)
    again = [replayed.ask([call()])[0] for _ in range(3)]
    assert again[:2] == recorded[:2]
    assert str(again[2]) == str(recorded[2])
    assert replayed.spending.spent == live.spending.spent
    unseen = replay(record).ask([call("fire")])[0]
    assert isinstance(unseen, ReplayError)
    assert "requested 'fire" in str(unseen)


@pytest.mark.parametrize("adapter", ["XMLAdapter", "JSONAdapter"])
def test_another_default_adapter_of_dspy_changes_no_request(adapter: str) -> None:
    """DSPy 3.5 makes XMLAdapter the default, and users configure one for their own programs."""
    import dspy

    def asked() -> tuple[Sequence[Mapping[str, Any]], ProgramOutput | LmError]:
        with OpenAIServer([Text(GOOD)]) as server:
            (answer,) = model(server).ask([call()])
            return [request.body for request in server.requests], answer

    usual, answer = asked()
    with dspy.context(adapter=getattr(dspy, adapter)()):
        changed, same = asked()
    assert changed == usual
    assert same == answer == ProgramOutput({"words": ["one", "two"]})
