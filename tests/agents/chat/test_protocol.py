from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from bytewise import BARE, END, HERMES, LISTED, bytewise
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from evoprompt.agents import TagProtocol, ToolCall, ToolCallProtocol, Tools, encode
from evoprompt.agents.writer import PromptWriter
from evoprompt.hosting.prompts import Prompt, system_message
from evoprompt.support.errors import InputError
from evoprompt.types import Question

MakeTokenizer = Callable[[str | None], PreTrainedTokenizerFast]
TAGS = TagProtocol("look", "at", "say", opening="\n<seen>\n", closing="\n</seen>\n")


@pytest.mark.parametrize(
    ("said", "text", "argument", "answer"),
    [
        ("<look> left </look>", "<look> left </look>", "left", None),
        ("<say> a door </say>", "<say> a door </say>", None, "a door"),
        ("hm <look>a</look><look>b</look>", "hm <look>a</look>", "a", None),
        ("<say>a</say><look>b</look>", "<say>a</say>", None, "a"),
        ("<look>a<look>b</look>", "<look>a<look>b</look>", "b", None),
        ("</look> <say>a</say>", "</look>", None, None),
        ("<look> left", "<look> left", None, None),
        ("", "", None, None),
    ],
)
def test_an_action_is_read_up_to_its_first_closing_tag(
    said: str, text: str, argument: str | None, answer: str | None
) -> None:
    move = TAGS.read(said)
    assert move.text == text
    assert [call.arguments["at"] for call in move.calls] == ([] if argument is None else [argument])
    assert move.answer == answer


def test_an_action_may_go_on_after_an_answer() -> None:
    tags = TagProtocol("look", "at", "say", opening="(", closing=")", ends_at_answer=False)
    assert tags.stop == ("</look>",)
    assert tags.read("<say>a</say> <look>b</look>").calls == (ToolCall("look", {"at": "b"}),)
    assert tags.read("<say>a</say> <say>b</say> end").answer == "b"


def test_reading_a_long_malformed_action_takes_no_time() -> None:
    assert TAGS.read("<look>" * 3_000).calls == ()


@pytest.mark.parametrize("special", [True, False])
def test_a_tokenizer_that_breaks_the_tags_is_refused(special: bool) -> None:
    words = {word: at for at, word in enumerate(["[UNK]", "look", "say", "x", "<", ">", "</"])}
    made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = (
        pre_tokenizers.WhitespaceSplit() if special else pre_tokenizers.Whitespace()
    )
    names = ["<look>", "</look>", "<say>", "</say>"]
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=made, additional_special_tokens=names if special else []
    )
    with pytest.raises(InputError, match="turns '<look> x </look>' into"):
        TAGS.require(tokenizer)


def test_calls_in_a_list_after_one_mark_are_read(make: MakeTokenizer) -> None:
    """Mistral's way, of which TRL bundles no template."""
    protocol = ToolCallProtocol(make(LISTED))
    one, two = ({"name": "add", "arguments": {"a": number}} for number in (1, 2))
    said = f"[TOOL_CALLS]{json.dumps([one, two])}<|im_end|>"
    assert [call.arguments for call in protocol.read(said).calls] == [{"a": 1}, {"a": 2}]
    assert protocol.frame([ToolCall("add", {})], said) == ("[TOOL_RESULTS]", "[/TOOL_RESULTS]")


ROUND = (
    "{% for m in messages %}{% if m.tool_calls %}BEFORE{% for c in m.tool_calls %}"
    "{% set f = c.function %}CALL{% endfor %}AFTER<|im_end|>{% elif m.role == 'tool' %}"
    "<seen>{{ m.content }}</seen>{% else %}{{ m.content }}<|im_end|>{% endif %}{% endfor %}"
)
JSON = "{{ f.arguments | tojson }}"
COMMA = "{% if not loop.last %}, {% endif %}"
OTHER_FORMS = {  # of families that TRL bundles no template of: before, a call, after
    "Granite": (
        "<|tool_call|>[",
        f'{{"name": "{{{{ f.name }}}}", "arguments": {JSON}}}{COMMA}',
        "]",
    ),
    "Command R": (
        "<|START_ACTION|>[\n",
        f'{{"tool_call_id": "0", "tool_name": "{{{{ f.name }}}}", "parameters": {JSON}}}{COMMA}',
        "]<|END_ACTION|>",
    ),
    "xLAM": ("[", f'{{"name": "{{{{ f.name }}}}", "arguments": {JSON}}}{COMMA}', "]"),
    "Mistral": ("", f"[TOOL_CALLS]{{{{ f.name }}}}[CALL_ID]{{{{ c.id }}}}[ARGS]{JSON}", ""),
    "Hunyuan": (
        "<tool_calls>",
        "<tool_call>{{ f.name }}<tool_sep>{% for k, v in f.arguments.items() %}"
        "<arg_key>{{ k }}</arg_key>\n<arg_value>{{ v }}</arg_value>\n{% endfor %}</tool_call>",
        "</tool_calls>",
    ),
    "MiniMax": (
        "<minimax:tool_call>",
        '\n<invoke name="{{ f.name }}">{% for k, v in f.arguments.items() %}\n'
        '<parameter name="{{ k }}">{{ v }}</parameter>{% endfor %}\n</invoke>',
        "\n</minimax:tool_call>",
    ),
    "OLMo": (
        "<function_calls>",
        "{{ f.name }}({% for k, v in f.arguments.items() %}{{ k }}={{ v | tojson }}{% endfor %})"
        "{% if not loop.last %}{{ '\\n' }}{% endif %}",
        "</function_calls>",
    ),
}


@pytest.mark.parametrize("family", OTHER_FORMS)
def test_calls_of_families_that_no_host_bundles_are_read(make: MakeTokenizer, family: str) -> None:
    before, call, after = OTHER_FORMS[family]
    template = ROUND.replace("BEFORE", before).replace("CALL", call, 1).replace("AFTER", after)
    tokenizer = make(template)
    protocol = ToolCallProtocol(tokenizer)
    for values in (["left"], ["left", "right"]):
        made: list[Any] = [
            {"id": f"call{at:05d}", "function": {"name": "look", "arguments": {"at": value}}}
            for at, value in enumerate(values)
        ]
        message: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": made}
        said = str(tokenizer.apply_chat_template([message], tokenize=False))
        assert protocol.read(said).calls == tuple(
            ToolCall("look", {"at": value}) for value in values
        )
    for answer in ("It is [1, 2], <b>bold</b>.", "[1] says look(at=3)"):
        assert protocol.read(f"{answer}<|im_end|>").answer == answer


def test_calls_without_a_mark_that_an_answer_lacks_are_refused(make: MakeTokenizer) -> None:
    call = "{{ f.name }}({% for k, v in f.arguments.items() %}{{ k }}={{ v | tojson }}{% endfor %})"
    template = ROUND.replace("BEFORE", "[").replace("CALL", call, 1).replace("AFTER", "]")
    with pytest.raises(InputError, match="in a form that can be read back"):
        ToolCallProtocol(make(template))


@pytest.mark.parametrize(
    ("inside", "name"),
    [
        ("{", "unnamed"),
        ("[]", "unnamed"),
        ('{"name": "add"', "add"),
        ('{"name": 1}', "unnamed"),
        ("[" * 9_999, "unnamed"),
        ("{'name': 'add', 'arguments': {'a': 1}}", "add"),
        ('{"name": "add", "arguments": {"a": 1,}}', "add"),
        ('{"name": "add", "arguments": {"a": 1}', "add"),
        ('{"name": "add", "arguments": {"a": True}}', "add"),
        ('{"name": "add", "input": {"a": 1}}', "add"),
        ('Sure: {"name": "add", "arguments": {"a": 1}}', "add"),
    ],
)
def test_a_call_that_cannot_be_read_is_told_beside_those_that_can(
    hermes: PreTrainedTokenizerFast, inside: str, name: str
) -> None:
    good = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    said = f"{good}\n<tool_call>\n{inside}\n</tool_call>\n{good}<|im_end|>"
    first, broken, last = ToolCallProtocol(hermes).read(said).calls
    assert first == last == ToolCall("now", {})
    assert (broken.name, broken.arguments) == (name, {})
    assert "cannot be read" in broken.fault
    assert "required: one JSON object" in broken.fault


@pytest.mark.parametrize("given", ["[1]", '"[1]"', "3"], ids=["list", "text", "number"])
def test_arguments_that_are_no_object_are_told_to_the_policy(
    hermes: PreTrainedTokenizerFast, given: str
) -> None:
    said = f'<tool_call>\n{{"name": "add", "arguments": {given}}}\n</tool_call>'
    (one,) = ToolCallProtocol(hermes).read(said).calls
    assert (one.name, one.arguments) == ("add", {})
    assert one.fault.startswith("the arguments of add are ")


def test_tool_calls_need_a_chat_template(make: MakeTokenizer) -> None:
    with pytest.raises(InputError, match=r"has no chat template.*TagProtocol"):
        ToolCallProtocol(make(None))
    with pytest.raises(InputError, match="has no chat template"):
        encode(make(None), [{"role": "user", "content": "Go"}])


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (
            "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}",
            "in a form that can be read back",
        ),
        ("{{ raise_exception('no tools') }}", r"renders no tool calls \(no tools\)"),
        (
            "{% for m in messages %}<f={{ m.tool_calls[0].function.name if m.tool_calls }}>"
            "{{ m.content }}{% endfor %}",
            "in a form that can be read back",
        ),
    ],
)
def test_a_template_without_tool_calls_is_refused(
    make: MakeTokenizer, template: str, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        ToolCallProtocol(make(template))


def test_a_template_that_drops_results_is_refused(make: MakeTokenizer) -> None:
    template = (
        '{% for m in messages %}{% if m.tool_calls %}{"name": "{{ m.tool_calls[0].function.name }}"'
        ', "arguments": {{ m.tool_calls[0].function.arguments | tojson }}}<|im_end|>'
        "{% elif m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}"
    )
    with pytest.raises(InputError, match="shows the results of 1 calls as"):
        ToolCallProtocol(make(template))


def test_more_calls_than_the_template_takes_are_told_to_the_policy(make: MakeTokenizer) -> None:
    """Llama 3.1's template, as others, raises where an action makes two calls."""
    single = "{% if m.tool_calls | length > 1 %}{{ raise_exception('one') }}{% endif %}"
    template = (
        f"{{% for m in messages %}}{single}{{% if m.tool_calls %}}"
        '<call>{"name": "{{ m.tool_calls[0].function.name }}", "arguments": '
        "{{ m.tool_calls[0].function.arguments | tojson }}}{% else %}{{ m.content }}{% endif %}"
        "<|im_end|>{% endfor %}"
    )
    protocol = ToolCallProtocol(make(template))
    one = '<call>{"name": "add", "arguments": {}}'
    assert len(protocol.read(one).calls) == 1
    (told,) = protocol.read(one + one).calls
    assert "makes 2 calls; required: one at a time" in told.fault


@pytest.mark.parametrize(
    "said",
    [
        '{"name": "Ada", "age": 36}',
        '{"answer": 51}',
        "{1, 2}",
        '{"name": "Ada"}',
    ],
)
def test_an_object_that_is_no_call_is_an_answer(make: MakeTokenizer, said: str) -> None:
    move = ToolCallProtocol(make(BARE)).read(f"{said}<|im_end|>")
    assert (move.calls, move.answer) == ((), said)


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ('{"name": "add", "parameters": {"a": 1}}', ""),
        ('{"parameters": {"a": 1}, "name": "add"}', ""),
        ("{'name': 'add', 'arguments': {'a': 1}}", "cannot be read"),
        ('{"type": "function", "name": "add", "arguments": {"a": 1', "cannot be read"),
    ],
)
def test_a_bare_object_that_was_meant_as_a_call_is_one(
    make: MakeTokenizer, said: str, fault: str
) -> None:
    (call,) = ToolCallProtocol(make(BARE)).read(f"{said}<|im_end|>").calls
    assert (call.name, call.arguments) == ("add", {} if fault else {"a": 1})
    assert fault in call.fault


@pytest.mark.parametrize(
    "arguments", ["{}", "null", '""', '"{}"'], ids=["object", "null", "empty", "text"]
)
def test_no_arguments_may_be_written_in_several_ways(
    hermes: PreTrainedTokenizerFast, arguments: str
) -> None:
    said = f'<tool_call>\n{{"name": "now", "arguments": {arguments}}}\n</tool_call>'
    assert ToolCallProtocol(hermes).read(said).calls == (ToolCall("now", {}),)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{% if messages[0].role == 'system' %}{{ raise_exception('none') }}{% endif %}", "none"),
        ("", "leaves the system message out"),
    ],
)
def test_a_template_without_a_system_role_is_told_with_its_remedy(
    make: MakeTokenizer, template: str, said: str
) -> None:
    users = "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}"
    tokenizer = make(template + users)
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    with pytest.raises(InputError, match=rf'{said}.*placement "user".*user_prefix'):
        encode(tokenizer, prompt)
    assert encode(tokenizer, prompt[1:])


class Prompts(PromptWriter):
    """Of a trainer that knows no question yet."""

    def render_question(self, question: Question) -> Prompt:
        return question.text

    def chat_template(self) -> None:
        return None

    def origin(self) -> tuple[str, str]:
        return "", ""

    def samples(self) -> Sequence[Prompt]:
        return []


@pytest.mark.parametrize("template", [HERMES, LISTED, BARE])
def test_a_writer_is_told_a_call_that_would_be_one(template: str) -> None:
    def add(a: int, b: int) -> int:
        """Sum of two numbers."""
        return a + b

    tokenizer = bytewise(template)
    prompts = Prompts(tokenizer, system_message, None, "", Tools([add]).schemas, {})
    told = prompts.setting("right sums").call
    assert END not in told
    assert ToolCallProtocol(tokenizer).read(told).calls == (
        ToolCall("add", {"a": "...", "b": "..."}),
    )
    without = Prompts(tokenizer, system_message, None, "", [], {})
    assert without.setting("right sums").call == ""


def test_a_writer_is_told_no_call_where_the_template_knows_none() -> None:
    def look(at: str) -> str:
        """What is there."""
        return at

    template = "{% for m in messages %}{{ m.role }}: [{{ m.content }}]{% endfor %}"
    template += "{% if add_generation_prompt %}assistant: [{% endif %}"
    prompts = Prompts(bytewise(template), system_message, None, "", Tools([look]).schemas, {})
    assert prompts.setting("a door").call == ""
