# %% [markdown]
# # Attach to TRL
#
# You have a `GRPOTrainer`, a dataset and a reward function. This notebook adds one call, `evoprompt.attach`, and the
# instruction is trained with the policy. It runs in about a minute on one CPU core: the policy is the one of
# 250,000 parameters that comes with the calculator example, which was pretrained to call a calculator. Put your own
# model in its place.
#
# ```console
# pip install -e ".[trl]" -e examples/tiny_policy -e examples/calculator matplotlib
# ```
#
# The command runs in a clone, as evoprompt is not published yet.

# %%
import re

import matplotlib.pyplot as plt
from datasets import Dataset
from evoprompt_calculator.task import WEIGHTS, Calculator
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

import evoprompt
from evoprompt.proposers.sentences import SentenceEdit

task = Calculator()
rows = [
    {"prompt": [{"role": "user", "content": question.text}]} for question in task.questions("train")
]
rows[0]

# %% [markdown]
# ## A reward, with a reason
#
# An episode here is the policy's first action, with a reward of 1 for a valid call of the calculator. TRL passes every
# reward function a `log_extra`: a proposer reads the texts that are logged under `feedback`. A number shows
# a failure, a sentence shows its cause.

# %%
CALL = re.compile(
    r'^<tool_call>\n\{"name": "calculate", "arguments": \{"expression": "[^"]+"\}\}\n'
)


def valid_call(completions, log_extra, **columns):
    texts = [completion[-1]["content"] for completion in completions]
    right = [bool(CALL.match(text)) for text in texts]
    feedback = [
        "" if ok else "no valid call" if "<tool_call>" in text else "answered without a call"
        for ok, text in zip(right, texts, strict=True)
    ]
    log_extra("feedback", feedback)
    return [float(ok) for ok in right]


trainer = GRPOTrainer(
    model=str(WEIGHTS),
    reward_funcs=valid_call,
    train_dataset=Dataset.from_list(rows),
    args=GRPOConfig(
        output_dir="out",
        max_steps=48,
        per_device_train_batch_size=80,  # rollouts
        num_generations=5,  # of them for each question
        max_completion_length=32,
        learning_rate=1e-5,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        bf16=False,  # TRL's default is True, which is slow on most CPUs
        seed=0,
    ),
)
trainer.remove_callback(PrinterCallback)  # which would print every metric here

# %% [markdown]
# ## An engine, and one call
#
# The engine holds the population. Its proposer is `SentenceEdit`, which edits sentences of a bank and needs no language
# model; `diagnose` turns the feedback of a failure into a name under which the bank lists remedies. To let a language
# model write instead, take `build("proposer", {"name": "reflection", "lm": {"model": "openai/gpt-5-mini"}})`
# from `evoprompt.plugins`; it reads the feedback itself. Everything else is the default: new instructions are
# [tried inside training](../concepts.md#what-a-default-run-does), at no extra rollouts.

# %%
DIAGNOSES = {"answered without a call": ["no calculation"], "no valid call": ["malformed call"]}

engine = evoprompt.Engine(
    task.seed_instructions,
    proposer=SentenceEdit(task.bank, lambda failed: DIAGNOSES.get(failed.feedback, [])),
)
evoprompt.attach(trainer, engine)
trainer.train().global_step

# %% [markdown]
# ## The result
#
# Rewards were credited to the instructions of the rollouts. From step 1 on new instructions were written from the failures,
# passed screening and were on trial beside the incumbent, in ordinary steps, until each was admitted or rejected; then the
# next ones were written. These are the members at the end, and the steps at which candidates were admitted:

# %%
for stats in sorted(engine.candidate_stats(), key=lambda stats: stats.weight or 0, reverse=True):
    print(f"{stats.weight:.2f}  {stats.candidate.text}")

# %%
for event in engine.log:
    if event["event"] == "verified" and event["admitted"]:
        print(f"step {event['step']}: {event['candidate']} was admitted")
metrics = engine.metrics()
{name: metrics[name] for name in ("training_rollouts", "verification_rollouts", "generations")}

# %% [markdown]
# The plot shows the reward of each step, and the start of each generation:

# %%
rewards = [(log["step"], log["reward"]) for log in trainer.state.log_history if "reward" in log]
figure, axes = plt.subplots(figsize=(7, 3))
axes.plot(*zip(*rewards, strict=True), marker=".")
for event in engine.log:
    if event["event"] == "evolved":
        axes.axvline(event["step"], linestyle=":", color="gray")
axes.set(xlabel="step", ylabel="mean reward", ylim=(0, 1))
figure.tight_layout()

# %%
engine.best.text

# %% [markdown]
# One seed and 48 steps show that the parts work together, not that an instruction is better than another: run
# both arms with several seeds for that (`evoprompt run`, [Run, compare, resume](../running.md)). `trainer.save_model()`
# saves the policy, and its instruction belongs to it, as it was trained under it. [TRL](../adapters.md) describes the changes that `attach`
# makes to TRL, and its guarantees.
