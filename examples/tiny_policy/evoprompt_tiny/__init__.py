"""Tiny policies that call tools: vocabulary, demonstrations, pretraining.

A world defines the habits of its demonstrators under the sentences of an instruction. The result is
a policy that *can* follow several strategies and follows the instruction. ``AutoModelForCausalLM``
and ``AutoTokenizer`` load its folder like that of any other model.
"""
