"""``evoprompt-verl``: veRL's own command line with co-evolution on.

Takes exactly the arguments of ``python -m verl.trainer.main_ppo`` and adds ``+evoprompt=default``
where no preset is chosen. It differs from typing that in what it does with mistakes: each is one
line and exit code 2, those that hydra finds in veRL's part of the configuration included.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from evoprompt.support.errors import InputError

USAGE = """\
usage: evoprompt-verl [+evoprompt=inspo|default] [evoprompt.SETTING=VALUE ...] [ARGUMENTS]

Trains with veRL's V1 trainer while a population of instructions co-evolves with the policy.
Takes the arguments of `python -m verl.trainer.main_ppo`; see docs/verl.md. Settings of the engine:
  evoprompt-verl --cfg job --package evoprompt
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run veRL's main function; exit with 2 if the input cannot be used."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    if argv in (["-h"], ["--help"], []):
        print(USAGE, end="")
        return
    from evoprompt_verl.versions import check_versions

    try:
        check_versions()
    except InputError as error:
        _refuse(str(error))
    sys.argv = ["evoprompt-verl", *with_preset(argv)]
    # Without this, hydra prints its own findings in its own way and exits with 1.
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    from hydra.errors import HydraException
    from verl.trainer import main_ppo

    try:
        main_ppo.main()
    except HydraException as error:
        _refuse(" ".join(str(error).split()))


def with_preset(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with a preset.

    >>> with_preset(["trainer.nnodes=2"])
    ['trainer.nnodes=2', '+evoprompt=default']
    >>> with_preset(["+evoprompt=inspo"])
    ['+evoprompt=inspo']
    """
    chosen = any(argument.lstrip("+").startswith("evoprompt=") for argument in arguments)
    return [*arguments] if chosen else [*arguments, "+evoprompt=default"]


def _refuse(message: str) -> None:
    print(f"evoprompt: {message}", file=sys.stderr)
    raise SystemExit(2)


if __name__ == "__main__":
    main()
