# %% [markdown]
# # Search-QA on two cores
#
# The experiment of the paper in miniature: a policy of 210,000 parameters answers questions of one to three hops with a
# search tool, while its instruction evolves. It needs no GPU, downloads nothing and takes two to five minutes. It ends
# with a policy that has learnt to search step by step, and with the instruction that brought it there.
#
# ```console
# pip install -e . -e plugins/evoprompt-retrieval -e examples/tiny_policy -e examples/search_qa matplotlib
# ```
#
# The command runs in a clone, as evoprompt is not published yet.

# %%
import json
from pathlib import Path
from textwrap import fill

import matplotlib.pyplot as plt

# %% [markdown]
# ## What it would do and cost
#
# A dry run checks every setting, and names what this machine lacks. `evoprompt demo` is `evoprompt run` with the
# configuration that comes with the package, [tiny.yaml](../../examples/search_qa/tiny.yaml); it takes the same options.

# %%
# !evoprompt demo --dry-run --arm coevolve --set budget=3200 --set evaluate_every=400 | tail -12

# %% [markdown]
# ## Run it
#
# One arm with 3,200 rollouts; without `--arm` and `--set` both arms get 8,000 each.

# %%
# !evoprompt demo --arm coevolve --set budget=3200 --set evaluate_every=400 --output tiny > log.txt
sorted(path.name for path in Path("tiny").iterdir())

# %% [markdown]
# ## What was learnt
#
# `report.html` draws everything; `summary.json` has the numbers.

# %%
summary = json.loads(Path("tiny/summary.json").read_text())
(trial,) = summary["arms"]["coevolve"]["seeds"]
curve, test = trial["curve"], trial["test"]

figure, axes = plt.subplots(figsize=(7, 3))
axes.plot(*zip(*curve, strict=True), marker="o")
axes.set(xlabel="rollouts, verification included", ylabel="exact match, validation", ylim=(0, 1))
figure.tight_layout()

# %%
print(f"{curve[0][1]:.2f} of the validation questions before, {curve[-1][1]:.2f} at the end")
print(f"{test['value']:.2f} of the test questions; by hops:", test["by_kind"])

# %% [markdown]
# ## The instruction, before and after
#
# The policy was pretrained to follow sentences. Those that ask it to search step by step are what questions of two and
# three hops need; evolution found them in the failures.

# %%
lines = Path("tiny/trials/coevolve/seed-0/events.jsonl").read_text().splitlines()
first = next(event for event in map(json.loads, lines) if event["event"] == "seeded")
print(fill("before: " + first["components"]["instruction"], 90))
print(fill("after: " + trial["best"]["instruction"], 90))

# %%
# !evoprompt best tiny > instruction.txt

# %% [markdown]
# One seed says that it can work. Of five with [4,000 rollouts](../notes/2026-11-26-tiny.md#three-worlds-and-how-children-are-verified) four end at .97 or above and
# one finds nothing; with 8,000 all five end above .98. A hand-written instruction needs [no training at
# all](../results-tiny.md#weights-and-instruction). `evoprompt eval tiny --set task.world=8` asks the trained policy about facts
# that no training saw. The same experiment with Qwen2.5 and Wikipedia is [search-QA at full size](../search-qa.md).
