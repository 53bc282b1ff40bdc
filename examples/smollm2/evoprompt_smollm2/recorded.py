"""Proposals that a better model wrote once, proposed again without one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from evoprompt import BuildContext, Proposer
from evoprompt.errors import InputError
from evoprompt.roles import ProposalRequest
from evoprompt.types import Proposal
from evoprompt.validation import explain

READING = Path(__file__).with_name("recorded_reading.json")
"""Proposals for the task ``reading``."""


class Written(BaseModel):
    """A proposal of a recording.

    Attributes:
        text: the instruction.
        rationale: why, in its writer's words.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str = Field(min_length=1)
    rationale: str = ""


class Recording(BaseModel):
    """Proposals, and where they are from.

    Attributes:
        writer: who wrote them, when, and what was shown to it.
        proposals: in the order of writing.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    writer: str = Field(min_length=1)
    proposals: list[Written] = Field(min_length=1)

    @classmethod
    def read(cls, file: Path) -> Recording:
        """The recording in ``file``.

        Raises:
            InputError: there is none.
        """
        try:
            return TypeAdapter(cls).validate_json(file.read_bytes())
        except OSError as error:
            raise InputError(
                f"the recording {file} cannot be read ({error.strerror}); required: a JSON file; "
                "check the path"
            ) from error
        except ValidationError as error:
            raise InputError(
                f"{file} is no recording ({explain(error, cls)}); required: a JSON object with "
                "writer and proposals, as in examples/smollm2/evoprompt_smollm2/"
                f"{READING.name}"
            ) from error


class Recorded(Proposer):
    """Proposes texts that a better model wrote once, without reading failures; no LLM.

    It proposes what was not tried yet, in an order drawn at random. It reads no failures: those
    that the writer read were of another moment of another training.

    Args:
        recording: what to draw from.
    """

    class Settings(BaseModel, extra="forbid"):
        """What a configuration may set."""

        file: Path = Field(READING, description="the recording; by default that of reading")

    @classmethod
    def build(cls, settings: Settings, context: BuildContext) -> Recorded:
        """Makes one of the recording that ``settings`` name.

        Raises:
            InputError: there is none.
        """
        return cls(Recording.read(settings.file))

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Up to ``request.count`` texts that are new; none when all were tried."""
        tried = {one.candidate.text for one in (*request.parents, *request.history)}
        left = [
            one
            for one in self.recording.proposals
            if one.text not in tried and all(wanted in one.text for wanted in request.required)
        ]
        parent = request.parents[0].candidate
        drawn = request.rng.sample(left, min(request.count, len(left)))
        return [Proposal.of(one.text, parent, rationale=one.rationale) for one in drawn]
