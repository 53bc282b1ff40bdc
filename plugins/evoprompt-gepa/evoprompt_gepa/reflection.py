"""GEPA's reflective mutation as a proposer of evoprompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field

from evoprompt.lm import LanguageModel
from evoprompt.log.turns import clip, render_episode
from evoprompt.proposers.language import CANDIDATES, LmProposer, LmTask, Prompt, component_of
from evoprompt.roles import ProposalRequest
from evoprompt.support.errors import InputError
from evoprompt.types import Trajectory

_PROMPT_TOKENS = 600  # about the size of GEPA's own text and an instruction
_VERBATIM = Prompt("", {"prompt": "as GEPA writes it"}, {})


class GepaReflection(LmProposer):
    """GEPA's reflective mutation: an LLM rewrites the parent from its failures.

    Each call requests one rewritten component. All proposals of a request are requested together.
    The prompt and the reading of the answer are those of the installed GEPA; the engine's required
    strings are added to the prompt, because GEPA has no notion of protocol tags.

    Args:
        language: the model.
        failures: failed trajectories shown for one proposal, at least 1.
        episode_tokens: length to which each of them is shortened, in tokens.
        prompt_template: instead of GEPA's own; must hold ``<curr_param>`` and ``<side_info>``.

    Raises:
        InputError: the template lacks a placeholder.
    """

    name = "gepa"

    class Settings(LmProposer.Settings):
        """Settings of the proposer ``gepa``."""

        failures: int = Field(3, ge=1, description="failed trajectories shown for one proposal")
        episode_tokens: int = Field(800, ge=100, description="length each of them is shortened to")
        prompt_template: str | None = Field(
            None, description="instead of GEPA's own; holds <curr_param> and <side_info>"
        )

    def __init__(
        self,
        language: LanguageModel,
        failures: int = 3,
        episode_tokens: int = 800,
        prompt_template: str | None = None,
    ) -> None:
        from gepa.strategies.instruction_proposal import InstructionProposalSignature

        super().__init__(language)
        try:
            InstructionProposalSignature.validate_prompt_template(prompt_template)
        except ValueError as error:
            raise InputError(f"prompt_template: {error}; add them to the template") from error
        self._gepa = InstructionProposalSignature
        self.failures = failures
        self.episode_tokens = episode_tokens
        self.template = prompt_template or InstructionProposalSignature.default_prompt_template
        self.input_tokens = _PROMPT_TOKENS + failures * episode_tokens

    def calls_for(self, count: int, parents: int) -> int:
        """Return one call a proposal."""
        return count

    def plan(self, request: ProposalRequest) -> Sequence[LmTask]:
        """Return one call a proposal, with failures of its parent; none without failures."""
        if not request.failures:
            return []
        template = self.template
        if request.required:
            required_text = "\n".join(request.required)
            template += (
                f"\n\nThe new instructions must contain each of these literally:\n{required_text}"
            )
        tasks = []
        for number in range(request.count):
            parent = request.parents[number % len(request.parents)].candidate
            component = component_of(parent, request)
            parent_failures = [
                failure for failure in request.failures if failure.candidate.id == parent.id
            ]
            latest = {
                failure.question.id: failure
                for failure in reversed(parent_failures or request.failures)
            }
            pool = list(latest.values())  # one per question
            sample = request.rng.sample(pool, min(self.failures, len(pool)))
            prompt = self._gepa.prompt_renderer(
                {
                    "current_instruction_doc": parent.components[component],
                    "dataset_with_feedback": [self._record(failure) for failure in sample],
                    "prompt_template": template,
                }
            )
            tasks.append(
                LmTask(_VERBATIM, {"prompt": str(prompt)}, (parent,), component, 1, self._program())
            )
        return tasks

    def _program(self) -> Any:
        """Return a DSPy program that sends a prompt as it is, and reads the answer as GEPA does."""
        import dspy

        read = self._gepa.output_extractor

        class Rewrite(dspy.Module):  # type: ignore[misc]  # DSPy is not typed
            async def aforward(self, prompt: str) -> Any:
                (text,) = await dspy.settings.lm.acall(prompt)
                new = read(text.strip())["new_instruction"]
                return dspy.Prediction(**{CANDIDATES: [new] if new else []})

        return Rewrite()

    def _record(self, failure: Trajectory) -> dict[str, str]:
        """Return an example in the schema that GEPA recommends."""
        answers = " or ".join(failure.question.answers)
        correct = f" The correct answer is {answers}." if answers else ""
        feedback = f" {clip(failure.feedback, 4 * self.episode_tokens)}" if failure.feedback else ""
        return {
            "Inputs": failure.question.text,
            "Generated Outputs": render_episode(replace(failure, feedback=""), self.episode_tokens),
            "Feedback": f"The reward was {failure.reward}.{correct}{feedback}",
        }
