"""Reachability of the Hugging Face hub, before its library tries each file of a model for 25 s."""

from __future__ import annotations

from pathlib import Path

import httpx

from evoprompt.support.errors import InputError

_SECONDS = 10.0  # to wait for the first answer


def require_hub(name: str) -> None:
    """Require that the Hugging Face hub can be reached, unless ``name`` is a path.

    Raises:
        InputError: it cannot be reached within seconds.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(name)
    except HFValidationError:  # a path
        return
    if Path(name).exists():
        return
    try:
        httpx.head(constants.ENDPOINT, timeout=_SECONDS)
    except httpx.HTTPError as error:
        raise InputError(
            f"the encoder {name!r} is not on this machine, and {constants.ENDPOINT} cannot be "
            f"reached ({error or type(error).__name__}); required: a folder, or a model "
            f"that was downloaded; run 'hf download {name} --local-dir FOLDER' where there is a "
            "network and give --encoder FOLDER, or use --backend bm25, which needs none"
        ) from error
