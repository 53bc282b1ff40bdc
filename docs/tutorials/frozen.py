# %% [markdown]
# # A model behind an API
#
# `evoprompt.optimize` improves the instruction of a model that you cannot train. Here the model is a stand-in, a
# function with habits, so that the notebook runs in seconds without a key; so is the proposer, which you would
# replace by `lm="openai/gpt-5-mini"`.
#
# ```console
# pip install -e . -c constraints.txt
# ```

# %%
import evoprompt
from evoprompt import Proposal
from evoprompt.evaluation import Score

examples = [
    {"question": f"Add {a} and {b}.", "answer": f"{a + b}", "digits": len(str(a + b))}
    for a in range(5, 60, 5)
    for b in (4, 47, 95)
]

# %% [markdown]
# ## A program and a metric
#
# `program(instruction, example)` asks your model. `metric(example, output)` returns a number, or a `Score` with feedback
# in words: that is what a proposer learns most from.


# %%
def program(instruction, example):
    """A model that shows off unless it is told not to, and is careless with large numbers."""
    answer = example["answer"]
    if example["digits"] > 2 and "step by step" not in instruction:
        answer = f"{int(answer) - 100}"
    return answer if "number alone" in instruction else f"The sum is {answer}, of course!"


def metric(example, output):
    if output == example["answer"]:
        return Score(1.0, "right")
    if example["answer"] in output:
        return Score(0.5, f"expected {example['answer']} and nothing else, got: {output}")
    return Score(0.0, f"wrong: expected {example['answer']}, got: {output}")


# %% [markdown]
# ## A proposer
#
# A proposer is any object with a method `propose`. It is given parents, their failures with the feedback of the metric,
# and how many texts are wanted.


# %%
class Reader:
    """Reads what the metric said about the failures, and asks for the opposite."""

    def propose(self, request):
        parent = request.parents[0].candidate
        said = " ".join(failure.feedback for failure in request.failures)
        remedies = []
        if "nothing else" in said:
            remedies.append("Answer with the number alone.")
        if "wrong" in said:
            remedies.append("Work step by step.")
        return [
            Proposal.of(f"{parent.text} {remedy}", parent, rationale=remedy)
            for remedy in remedies[: request.count]
            if remedy not in parent.text
        ]


# %%
result = evoprompt.optimize(
    "Answer the question.",
    examples[::2],
    metric,
    program=program,
    valset=examples[1::2],
    proposer=Reader(),
    budget=300,
)
result.best.text

# %%
print(f"{result.value:.2f} of the validation questions; {result.stopped}")
for rollouts, value, text in result.curve:
    print(f"{rollouts:4d} rollouts  {value:.2f}  {text}")

# %% [markdown]
# With `directory="runs/first"` every rollout is written down, and `OptimizeOptions(resume=True)` goes on after a kill; see
# [A model that is not trained](../frozen.md) for budgets, concurrency and what the loop does. The validation questions
# chose the best of several instructions: give a `testset` before you report a number.
