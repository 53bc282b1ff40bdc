"""A taskset, and a harness that asks the model once over its endpoint, as verifiers loads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import httpx
import verifiers.v1 as vf


class SumData(vf.TaskData):  # type: ignore[misc]  # not installed with mypy, like all here
    answer: str


class SumTask(vf.Task[SumData, vf.State, vf.TaskConfig]):  # type: ignore[misc]
    @vf.reward  # type: ignore[untyped-decorator]
    async def right(self, trace: vf.Trace) -> float:
        return float(trace.last_reply.split()[-1:] == [self.data.answer])


class Sums(vf.Taskset[SumTask, vf.TasksetConfig]):  # type: ignore[misc]
    def load(self) -> Iterable[SumTask]:
        for n in range(24):
            yield SumTask(
                SumData(
                    prompt=f"What is {n} plus {n}?",
                    system_prompt="Answer the question.",
                    answer=str(2 * n),
                )
            )


class Once(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc]
    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: Mapping[str, str],
        data: vf.TaskData,
        tool_interception_url: str | None = None,
    ) -> Any:
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
        async with httpx.AsyncClient(timeout=60) as client:
            answer = await client.post(
                f"{endpoint}/chat/completions",
                headers={"Authorization": f"Bearer {secret}"},
                json={"model": ctx.model, "messages": messages},
            )
        failed = answer.status_code != 200
        return vf.ProgramResult(int(failed), "", answer.text if failed else "")


__all__ = ["Once", "Sums"]
