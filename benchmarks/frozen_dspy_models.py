"""What the optimizers of ``benchmarks/frozen_dspy.py`` share: program, metric, scripted models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import dspy
from dspy.lm15 import Message, Response, TextPart, Usage

from benchmarks.frozen_worlds import Problem, Record
from evoprompt.testing.openai_server import chat_fields

PART = "part 0"
_OBJECTIVE = "your objective is: "


class Engine:
    """Answers each request by a function of its system message and its user message."""

    def __init__(self, answer: Callable[[str, str], Mapping[str, object]]) -> None:
        self._answer = answer

    def complete(self, request: Any) -> Any:
        """The response to one request."""
        text = chat_fields(**self._answer(request.system, request.messages[-1].text))
        return Response(
            id=None,
            model="scripted",
            message=Message.assistant([TextPart(text)]),
            finish_reason="stop",
            usage=Usage(input_tokens=1, output_tokens=1, total_tokens=2),
        )

    def close(self) -> None:
        """Nothing."""


def scripted(answer: Callable[[str, str], Mapping[str, object]]) -> Any:
    """A language model of DSPy's that answers so."""
    return dspy.LM("scripted/model", engine=Engine(answer), cache=False)


def model_of(problem: Problem) -> Any:
    """The scripted model of a problem."""
    asked = {one.id: one for one in (*problem.train, *problem.validation)}

    def answer(system: str, user: str) -> Mapping[str, object]:
        instruction = " ".join(system.partition(_OBJECTIVE)[2].split())
        number = int(user.partition("[[ ## number ## ]]")[2].split()[0])
        record = problem.rollout({PART: instruction}, asked[number])
        return {"reward": str(record.reward), "remark": record.feedback or "none"}

    return scripted(answer)


def metric(
    gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
) -> Any:
    """What the scripted model has said of itself."""
    remark = "" if pred.remark == "none" else pred.remark
    return dspy.Prediction(score=float(pred.reward), feedback=remark)


def student(problem: Problem) -> Any:
    """The program that all start from."""
    return dspy.Predict(dspy.Signature("number -> reward, remark", problem.seed_texts[PART]))


def sets(problem: Problem) -> Mapping[str, list[Any]]:
    """The questions as examples: their numbers."""
    return {
        name: [dspy.Example(number=str(one.id)).with_inputs("number") for one in asked]
        for name, asked in (("trainset", problem.train), ("valset", problem.validation))
    }


def record_of(row: Mapping[str, Any]) -> Record:
    """The outputs of a rollout, as optimizers show them, as the teacher reads them."""
    remark = str(row["remark"])
    return Record(float(row["reward"]), "" if remark == "none" else remark)
