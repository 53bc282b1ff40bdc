# %% [markdown]
# # Tune the prompt of a real language model
#
# SmolLM2-135M-Instruct answers questions about short notes. This notebook looks for a better instruction
# with `evoprompt.optimize`, and measures its value: on questions that played no part in the choice, with an interval.
#
# The model's answers are recorded, so that the page needs no weights. To run it yourself, install the packages and get the
# model (93 MB, once); without that folder the cells read the recording, [smollm2.json](smollm2.json), which
# belongs beside the notebook.
#
# ```console
# pip install -e . -e examples/smollm2 transformers torch matplotlib
# evoprompt model smollm2 smollm2
# ```
#
# The command runs in a clone, as evoprompt is not published yet.

# %%
import json
import random
import re
from pathlib import Path
from statistics import NormalDist, fmean, stdev
from textwrap import fill

import matplotlib.pyplot as plt

import evoprompt
from evoprompt import Proposal, Proposer
from evoprompt.log.evaluation import Score

MODEL, RECORDING = Path("smollm2"), Path("smollm2.json")

# %% [markdown]
# ## Questions
#
# A note, and a question whose answer is one of its words. They are made up here, so that nothing is downloaded and the
# model cannot have learnt them.

# %%
PEOPLE = ("Novak", "Okafor", "Lindqvist", "Tanaka", "Moreau", "Haddad", "Costa", "Weiss")
TOWNS = ("Ulm", "Porto", "Lyon", "Graz", "Turku", "Leeds", "Pisa", "Brno")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
GOODS = ("lamps", "carpets", "bicycles", "mirrors", "violins", "kettles", "helmets")


def make_examples(number, seed):
    rng, examples = random.Random(seed), []
    for _ in range(number):
        person, town, day, goods = map(rng.choice, (PEOPLE, TOWNS, DAYS, GOODS))
        note = f"On {day} {rng.randint(3, 90)} {goods} were sent by train to the shop of Ms {person} in {town}."
        question, answer = rng.choice(
            [
                ("Who owns the shop?", person),
                ("In which town is the shop?", town),
                ("On which day were the goods sent?", day),
                ("What was sent?", goods),
            ]
        )
        examples.append({"question": f"{note} {question}", "answer": answer})
    return examples


train, validation, test = make_examples(60, 1), make_examples(60, 2), make_examples(150, 3)
train[0]

# %% [markdown]
# ## The program and the metric
#
# The instruction stands before the question. The metric is F1: how many words of the answer are right, and how many are too
# many. The feedback names the fault; a language model that writes instructions would read it.


# %%
def load():
    """Return a function that answers prompts, or None without the model's folder."""
    if not MODEL.exists():
        return None
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(MODEL, padding_side="left")
    dtype = torch.bfloat16  # float32 is faster on CPUs without instructions for it
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=dtype)

    def answers(prompts):
        chats = [[{"role": "user", "content": prompt}] for prompt in prompts]
        inputs = tokenizer.apply_chat_template(
            chats, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
        )
        with torch.inference_mode():
            output = model.generate(**inputs, max_new_tokens=16, do_sample=False)
        new = output[:, inputs["input_ids"].shape[1] :]
        return [text.strip() for text in tokenizer.batch_decode(new, skip_special_tokens=True)]

    return answers


model = load()


def prompt(instruction, example):
    return f"{instruction}\n\n{example['question']}"


def program(instruction, example):
    (answer,) = model([prompt(instruction, example)])
    return answer


def words(text):
    return re.findall(r"\w+", text.lower())


def metric(example, output):
    expected, answered = words(example["answer"]), words(output)
    common = sum(word in answered for word in expected)
    reward = 2 * common / (len(expected) + len(answered)) if common else 0.0
    return Score(reward, "" if reward == 1 else f"expected {example['answer']}, got: {output}")


# %% [markdown]
# ## A writer
#
# `lm="openai/gpt-5-mini"` would let a language model write. To need no key, this one adds or takes out one of twelve plain
# sentences, at random: some ask for brevity, the others for something else.

# %%
SENTENCES = (
    "Keep the answer short.",
    "Answer in one word.",
    "Copy the answer from the note.",
    "Write nothing else.",
    "Answer in a full sentence.",
    "Be polite.",
    "Think step by step.",
    "Say how sure you are.",
    "Answer like a librarian.",
    "Name the note first.",
    "Use simple words.",
    "Repeat the question.",
)


def changed_parts(parts, sentence):
    if sentence in parts:
        return [part for part in parts if part != sentence]
    return [*parts, sentence]


class AddOrDrop(Proposer):
    """Proposer that adds a sentence to a text, or removes one."""

    def propose(self, request):
        parent = request.parents[0].candidate
        head, *parts = re.findall(r"[^.]+\.", parent.text)
        parts = [part.strip() for part in parts]
        sentences = request.rng.sample(SENTENCES, request.count)
        return [
            Proposal.of(" ".join([head, *changed_parts(parts, sentence)]), parent)
            for sentence in sentences
        ]


# %% [markdown]
# ## Optimize, and test the result
#
# The budget counts every answer of the model. The test questions are answered afterwards, under the first and under the best
# instruction.

# %%
SEED = "You are a helpful assistant. Explain your answer."


def optimized():
    result = evoprompt.optimize(
        SEED,
        train,
        metric,
        program=program,
        valset=validation,
        proposer=AddOrDrop(),
        budget=200,
        options=evoprompt.OptimizeOptions(max_concurrency=1, progress=False),
    )
    texts = {"before": SEED, "after": result.best.text}
    answers = {
        name: model([prompt(text, example) for example in test]) for name, text in texts.items()
    }
    return {
        "texts": texts,
        "curve": [list(point) for point in result.curve],
        "stopped": result.stopped,
        "answers": answers,
    }


if model:
    RECORDING.write_text(json.dumps(optimized(), indent=1))
recording = json.loads(RECORDING.read_text())
for name, text in recording["texts"].items():
    print(f"{name}: {text}")
print(fill(recording["stopped"], 90))

# %%
for number in range(3):
    print(test[number]["question"])
    for name, answers in recording["answers"].items():
        print(f"  {name}: {answers[number]}")

# %% [markdown]
# ## Its value
#
# Both instructions were tested on the same 150 questions, so the difference is taken question by question. An interval that
# holds 0 means that no difference is shown.

# %%
scores = {
    name: [metric(example, answer).reward for example, answer in zip(test, answers, strict=True)]
    for name, answers in recording["answers"].items()
}
gains = [after - before for before, after in zip(scores["before"], scores["after"], strict=True)]
half = NormalDist().inv_cdf(0.975) * stdev(gains) / len(gains) ** 0.5
low, high = fmean(gains) - half, fmean(gains) + half
print({name: round(fmean(values), 3) for name, values in scores.items()})
print(f"gain {fmean(gains):+.3f}, 95 % interval {low:+.3f} to {high:+.3f}:", end=" ")
print("shown" if low > 0 else "worse" if high < 0 else "not shown")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), width_ratios=[2, 1])
rollouts, values, _ = zip(*recording["curve"], strict=True)
left.step(rollouts, values, where="post", marker="o")
left.set(xlabel="answers of the model", ylabel="F1, validation", ylim=(0, 0.3))
names = list(scores)
means = [fmean(scores[name]) for name in names]
errors = [1.96 * stdev(scores[name]) / len(test) ** 0.5 for name in names]
right.errorbar(names, means, errors, fmt="o", capsize=4)
right.set(ylabel="F1, 150 test questions", ylim=(0, 0.3), xlim=(-0.5, 1.5))
figure.tight_layout()

# %% [markdown]
# **In this recording no gain is shown**: the text that led on its validation questions is no better on fresh
# ones. A budget of 200 answers, a proposer that reads no failures and a model that seldom heeds an instruction are reasons;
# so try more answers, `lm=` and your own model. Without test questions the curve on the left would have been
# taken for a gain. Where the same model was trained, [no gain of co-evolution is shown](../notes/2026-11-24-smollm2.md) either.
#
# With `directory="runs/first"` every answer is saved, and `OptimizeOptions(resume=True)` continues after a kill. Budgets,
# servers and the command line are in [Tune the prompt of a frozen model](../frozen.md), DSPy programs in
# [their own guide](../dspy.md).
