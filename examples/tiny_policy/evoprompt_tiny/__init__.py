"""Tiny policies that call tools: vocabulary, demonstrations, pretraining.

A world says what its demonstrators do under which sentences of an instruction; from that comes a
policy that *can* follow several strategies and does what the instruction asks for. The folder it
is saved to is loaded by ``AutoModelForCausalLM`` and ``AutoTokenizer`` like any other model.
"""
