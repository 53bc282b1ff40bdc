"""The instruction that training starts from, in the manner of Search-R1."""

SEED = (
    "Answer the question below. Whenever new information reaches you, reason about it first, "
    "inside <think> and </think>. If something you need to know is missing, look it up: write a "
    "query inside <search> and </search>, and the best passages found will be shown to you inside "
    "<information> and </information>. You may do so several times. When nothing is missing any "
    "more, write the final answer inside <answer> and </answer>: the answer alone, as short as "
    "possible and without an explanation, for example <answer> Beijing </answer>."
)
"""Names every tag, the order of thinking and searching, and the form of the answer."""
