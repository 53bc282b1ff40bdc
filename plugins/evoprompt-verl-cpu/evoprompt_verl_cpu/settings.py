"""What a configuration may say of the host ``verl-cpu``."""

from __future__ import annotations

from evoprompt_verl.trainee.settings import VerlHostSettings


class CpuSettings(VerlHostSettings):
    """The host section of a configuration; see :class:`VerlHostSettings` for what is not said here.

    Attributes:
        learning_rate: of AdamW, constant.
        prompt_tokens: a policy of 512 positions has 192 of them left after four calls.
    """

    learning_rate: float = 1e-4
    warmup: float = 0.0
    kl: float = 0.0
    questions_per_step: int = 16
    micro_batch: int | None = None
    gpus_per_node: int = 1
