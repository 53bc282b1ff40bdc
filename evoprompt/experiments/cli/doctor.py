"""``evoprompt doctor``: whether this machine can run, and what to do where it cannot."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import TYPE_CHECKING, NamedTuple

import typer

if TYPE_CHECKING:
    from packaging.version import Version

STYLES = {"note": "yellow", "problem": "red"}


class Finding(NamedTuple):
    """One thing that the doctor looked at.

    Attributes:
        level: ``ok``; ``note``, which may matter to some; ``problem``, which will stop a run.
        subject: what was looked at.
        text: what was found.
        remedy: what to do about it, empty when nothing.
    """

    level: str
    subject: str
    text: str
    remedy: str = ""


def doctor() -> None:
    """Check packages, plugins and GPU: problems first, each with its remedy.

    Exit code 1 if there is a problem.
    """
    from rich.console import Console
    from rich.text import Text

    console = Console()
    found = list(findings())
    for level in ("problem", "note"):
        for one in [one for one in found if one.level == level]:
            remedy = f" -> {one.remedy}" if one.remedy else ""
            head = (f"{level:8}", STYLES[level]), (f"{one.subject:14} ", "bold")
            console.print(Text.assemble(*head, one.text, (remedy, "cyan")), soft_wrap=True)
    fine = [f"{one.subject} {one.text}" for one in found if one.level == "ok"]
    console.print(f"{len(fine)} fine: {', '.join(fine)}", style="green", soft_wrap=True)
    if any(one.level == "problem" for one in found):
        raise typer.Exit(1)


def findings() -> Iterator[Finding]:
    """Everything the doctor looks at, one after the other."""
    from packaging.utils import canonicalize_name
    from packaging.version import Version

    from evoprompt.plugins import plugins

    versions: dict[str, Version] = {}
    for (
        distribution
    ) in metadata.distributions():  # the first on the path is the one that is imported
        versions.setdefault(canonicalize_name(distribution.name), Version(distribution.version))
    yield Finding("ok", "Python", platform.python_version())
    yield from packages(versions)
    yield from conflicts(versions)
    for problem in plugins().problems:
        remedy = "fix, uninstall or block it with EVOPROMPT_BLOCK"
        yield Finding("problem", "plugins", problem, remedy)
    yield from gpu("verl" in versions)


def packages(versions: Mapping[str, Version]) -> Iterator[Finding]:
    """One line for each package of the core, then one for each of the extras."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    extras = metadata.metadata("evoprompt").get_all("Provides-Extra") or []
    told = {"evoprompt"}
    for extra in ("", *(extra for extra in extras if extra not in ("dev", "docs", "test"))):
        for wanted in map(Requirement, metadata.requires("evoprompt") or ()):
            if wanted.name in told or wanted.extras:
                continue
            if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
                continue
            told.add(wanted.name)
            version = versions.get(canonicalize_name(wanted.name))
            if version is None and extra:
                text = f"not installed; the extra {extra!r} needs {wanted.specifier or 'it'}"
                install = f'pip install "evoprompt[{extra}]"'
                yield Finding("note", wanted.name, text, install)
            # A clone's own version is a development one.
            elif version and wanted.specifier.contains(version, prereleases=True):
                yield Finding("ok", wanted.name, str(version))
            else:
                text = f"{version or 'not installed'}; {wanted.specifier or 'it'} is required"
                install = f'pip install "{wanted.name}{wanted.specifier}"'
                yield Finding("problem", wanted.name, text, install)


def conflicts(versions: Mapping[str, Version]) -> Iterator[Finding]:
    """Hosts that do not go together, or are newer than what was tested."""
    from evoprompt_trl.host import TESTED as TRL
    from evoprompt_verl.versions import REMEDY, conflict
    from evoprompt_verl.versions import TESTED as VERL
    from packaging.version import Version

    trl, verl = versions.get("trl"), versions.get("verl")
    if verl and (found := conflict(str(verl), str(trl) if trl else None)):
        level = "problem" if verl <= Version(VERL) else "note"
        yield Finding(level, "trl + verl", found, REMEDY)
    for name, version, tested in (("verl", verl, VERL), ("trl", trl, TRL)):
        release = Version(tested).release
        if version and version.release[: len(release)] > release:
            yield Finding(
                "note",
                name,
                f"{version} is newer than {tested}, the newest that evoprompt was tested with",
                f'should anything look odd: pip install "{name}=={tested}.*"',
            )


def gpu(verl: bool) -> Iterator[Finding]:
    """The GPUs, whether torch can use them, and what veRL needs there if it is installed."""
    from evoprompt.experiments.requirements import devices, flash_attention

    found = devices()
    if not found.listed:
        yield Finding("note", "GPU", "none found; the tiny example runs on a CPU")
        return
    if found.problem:
        yield Finding("problem", "GPU", found.problem, found.remedy)
    else:
        yield Finding("ok", "GPU", "; ".join(found.listed))
    if verl and (need := flash_attention("train with sdpa, see docs/search-qa.md")).missing:
        yield Finding("note", need.subject, need.text, need.remedy)
