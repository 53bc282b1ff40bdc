"""``evoprompt doctor``: checks whether this machine can run, with a remedy for each problem."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import TYPE_CHECKING, NamedTuple

import typer

if TYPE_CHECKING:
    from packaging.version import Version

STYLES = {"note": "yellow", "problem": "red"}


class DoctorCheck(NamedTuple):
    """Result of one check of the doctor.

    Attributes:
        level: ``ok``; ``note``, which may matter in some cases; ``problem``, which will stop a run.
        subject: subject of the check.
        text: result.
        remedy: the remedy, empty if none is needed.
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
    all_findings = list(findings())
    for level in ("problem", "note"):
        for finding in [finding for finding in all_findings if finding.level == level]:
            remedy = f" -> {finding.remedy}" if finding.remedy else ""
            head = (f"{level:8}", STYLES[level]), (f"{finding.subject:14} ", "bold")
            console.print(Text.assemble(*head, finding.text, (remedy, "cyan")), soft_wrap=True)
    fine = [
        f"{finding.subject} {finding.text}" for finding in all_findings if finding.level == "ok"
    ]
    console.print(f"{len(fine)} fine: {', '.join(fine)}", style="green", soft_wrap=True)
    if any(finding.level == "problem" for finding in all_findings):
        raise typer.Exit(1)


def findings() -> Iterator[DoctorCheck]:
    """Yield the results of all checks, one after the other."""
    from packaging.utils import canonicalize_name
    from packaging.version import Version

    from evoprompt.plugins import plugins

    versions: dict[str, Version] = {}
    # Of several distributions of a name, the first on the path is imported.
    for distribution in metadata.distributions():
        versions.setdefault(canonicalize_name(distribution.name), Version(distribution.version))
    yield DoctorCheck("ok", "Python", platform.python_version())
    yield from packages(versions)
    yield from conflicts(versions)
    for problem in plugins().problems:
        remedy = "fix, uninstall or block it with EVOPROMPT_BLOCK"
        yield DoctorCheck("problem", "plugins", problem, remedy)
    yield from gpu("verl" in versions)


def packages(versions: Mapping[str, Version]) -> Iterator[DoctorCheck]:
    """Yield one finding for each package of the core, then one for each package of the extras."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    extras = metadata.metadata("evoprompt").get_all("Provides-Extra") or []
    reported = {"evoprompt"}
    for extra in ("", *(extra for extra in extras if extra not in ("dev", "docs", "test"))):
        for requirement in map(Requirement, metadata.requires("evoprompt") or ()):
            if requirement.name in reported or requirement.extras:
                continue
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
                continue
            reported.add(requirement.name)
            version = versions.get(canonicalize_name(requirement.name))
            if version is None and extra:
                text = f"not installed; the extra {extra!r} needs {requirement.specifier or 'it'}"
                install = f'pip install -e ".[{extra}]"'
                yield DoctorCheck("note", requirement.name, text, install)
            # A clone's own version is a development one.
            elif version and requirement.specifier.contains(version, prereleases=True):
                yield DoctorCheck("ok", requirement.name, str(version))
            else:
                text = f"{version or 'not installed'}; {requirement.specifier or 'it'} is required"
                install = f'pip install "{requirement.name}{requirement.specifier}"'
                yield DoctorCheck("problem", requirement.name, text, install)


def conflicts(versions: Mapping[str, Version]) -> Iterator[DoctorCheck]:
    """Yield hosts that do not fit together, or are newer than the tested versions."""
    from evoprompt_trl.host import TESTED as TRL
    from evoprompt_verl.versions import REMEDY, conflict
    from evoprompt_verl.versions import TESTED as VERL
    from packaging.version import Version

    trl, verl = versions.get("trl"), versions.get("verl")
    if verl and (reason := conflict(str(verl), str(trl) if trl else None)):
        level = "problem" if verl <= Version(VERL) else "note"
        yield DoctorCheck(level, "trl + verl", reason, REMEDY)
    for name, version, tested in (("verl", verl, VERL), ("trl", trl, TRL)):
        release = Version(tested).release
        if version and version.release[: len(release)] > release:
            yield DoctorCheck(
                "note",
                name,
                f"{version} is newer than {tested}, the newest that evoprompt was tested with",
                f'should anything look odd: pip install "{name}=={tested}.*"',
            )


def gpu(verl: bool) -> Iterator[DoctorCheck]:
    """Yield the GPUs, whether torch can use them, and veRL's needs there if it is installed."""
    from evoprompt.experiments.requirements import devices, flash_attention

    gpu_devices = devices()
    if not gpu_devices.listed:
        yield DoctorCheck("note", "GPU", "none found; the tiny example runs on a CPU")
        return
    if gpu_devices.problem:
        yield DoctorCheck("problem", "GPU", gpu_devices.problem, gpu_devices.remedy)
    else:
        yield DoctorCheck("ok", "GPU", "; ".join(gpu_devices.listed))
    if verl and (need := flash_attention("train with sdpa, see docs/search-qa.md")).missing:
        yield DoctorCheck("note", need.subject, need.text, need.remedy)
