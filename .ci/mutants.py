"""Apply the mutants of mutants.toml, one at a time, and report which the tests find.

    python .ci/mutants.py            all of them
    python .ci/mutants.py storage 7  those whose file contains the word, or of that number

A mutant is killed if its tests fail in a copy of the tree, and survives if they pass. The exit code
is 1 if a mutant survives without an explanation, is explained and killed, or does not apply.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("", "adapters", "examples/tiny_policy", "examples/search_qa")
MAX_SECONDS = 600  # of the tests of a mutant; an endless loop is found as well
MAX_SURVIVORS = 5


def copy_tree(folder: Path) -> None:
    """Copy the files of the working tree that git knows, or would add."""
    listing = ["git", "-C", str(ROOT), "ls-files", "-z", "-co", "--exclude-standard"]
    names = subprocess.run(listing, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(lambda name: (ROOT / name).is_file(), names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())


def run_tests(folder: Path, tests: list[str]) -> bool:
    """Return whether the tests pass in ``folder``."""
    paths = os.pathsep.join(str(folder / source) for source in SOURCES)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command,
            check=False,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": paths},
            stdout=(folder / "output.txt").open("wb"),
            stderr=subprocess.STDOUT,
            timeout=MAX_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return False
    if done.returncode not in (0, 1, 2):
        raise SystemExit(f"pytest cannot run {tests}:\n{(folder / 'output.txt').read_text()}")
    return done.returncode == 0


def main(words: list[str]) -> int:
    """Run the mutants that ``words`` name, all without any; ``--check`` runs none."""
    mutants = tomllib.loads((ROOT / ".ci/mutants.toml").read_text("utf-8"))["mutant"]
    missing = [
        f"mutant {number}: {mutant['old']!r} stands {count} times in {mutant['file']}"
        for number, mutant in enumerate(mutants, 1)
        if (count := (ROOT / mutant["file"]).read_text("utf-8").count(mutant["old"])) != 1
    ]
    if missing:
        print(*missing, "required: once; bring .ci/mutants.toml up to date", sep="\n")
        return 1
    if words == ["--check"]:
        print(f"{len(mutants)} mutants can be applied")
        return 0
    chosen = [
        (number, mutant)
        for number, mutant in enumerate(mutants, 1)
        if not words or any(word in (str(number), Path(mutant["file"]).stem) for word in words)
    ]
    faults: list[str] = []
    survivors = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        copy_tree(folder)
        if not run_tests(
            folder, sorted({test for _, mutant in chosen for test in mutant["tests"]})
        ):
            print("tests fail without a mutant", (folder / "output.txt").read_text(), sep="\n")
            return 1
        for number, mutant in chosen:
            path, began = folder / mutant["file"], monotonic()
            original = path.read_text("utf-8")
            path.write_text(original.replace(mutant["old"], mutant["new"]), "utf-8")
            later = path.stat().st_mtime + number  # compiled files are told apart by whole seconds
            os.utime(path, (later, later))
            survives = run_tests(folder, mutant["tests"])
            path.write_text(original, "utf-8")
            survivors += survives
            state = "survives" if survives else "killed"
            label = f"{number:3} {state:8} {monotonic() - began:4.0f} s  {mutant['kind']:6}"
            print(f"{label} {mutant['file']}: {mutant['old'].splitlines()[0]}", flush=True)
            if survives != bool(mutant.get("survives")):
                faults.append(f"mutant {number}: {state}; mutants.toml says otherwise")
    print(*faults, f"{survivors} of {len(chosen)} mutants survive", sep="\n")
    return int(bool(faults) or survivors > MAX_SURVIVORS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
