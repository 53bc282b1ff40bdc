"""Form of conversations of tiny policies: the chat template, and the form of a call."""

from __future__ import annotations

PAD, START, END = "<pad>", "<|im_start|>", "<|im_end|>"
CALL, END_CALL = "<tool_call>", "</tool_call>"

CHAT_TEMPLATE = r"""
{%- if tools or messages[0].role == "system" %}
    {{- "<|im_start|>system" }}
    {%- if messages[0].role == "system" %}
        {{- " " + messages[0].content }}
    {%- endif %}
    {%- for tool in tools or [] %}
        {{- "\n" + tool.function.name + "(" + tool.function.parameters.properties | join(", ") }}
        {{- "): " + tool.function.description }}
    {%- endfor %}
    {{- "<|im_end|>\n" }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == "user" %}
        {{- "<|im_start|>user " + message.content + "<|im_end|>\n" }}
    {%- elif message.role == "tool" %}
        {%- if loop.previtem.role != "tool" %}
            {{- "<|im_start|>user" }}
        {%- endif %}
        {{- "\n<tool_response>\n" + message.content + "\n</tool_response>" }}
        {%- if loop.last or loop.nextitem.role != "tool" %}
            {{- "<|im_end|>\n" }}
        {%- endif %}
    {%- elif message.role == "assistant" %}
        {{- "<|im_start|>assistant\n" + message.content }}
        {%- for call in message.tool_calls or [] %}
            {%- if message.content or not loop.first %}
                {{- "\n" }}
            {%- endif %}
            {{- '<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- (call.function.arguments | tojson) + "}\n</tool_call>" }}
        {%- endfor %}
        {{- "<|im_end|>\n" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- "<|im_start|>assistant\n" }}
{%- endif %}"""
"""Instruction, tools and conversation; calls and results are written as Qwen's template does."""


def call_phrases(name: str, argument: str) -> tuple[str, str]:
    r"""Return the texts before and after the argument of a call of a tool with one text argument.

    >>> "".join([call_phrases("look", "at")[0], "left", call_phrases("look", "at")[1]])
    '<tool_call>\n{"name": "look", "arguments": {"at": "left"}}\n</tool_call>'
    """
    before = f'{CALL}\n{{"name": "{name}", "arguments": {{"{argument}": "'
    return before, f'"}}}}\n{END_CALL}'
