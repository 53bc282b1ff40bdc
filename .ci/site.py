#!/usr/bin/env python
"""Builds the documentation site into build/site/html, and checks it.

    python .ci/site.py               # tutorials are run, every warning is an error
    python .ci/site.py --skip-run    # tutorials without their outputs, in seconds
    python -m http.server -d build/site/html

Pages are docs/, the READMEs of plugins and examples, and the files in the root that people read.
Links between them lead to pages; a link to any other file of the repository leads to a copy of it.
No page may ask another host for anything, and every link and anchor must exist.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

ROOT = Path(__file__).resolve().parents[1]
DOCS, HTML = ROOT / "build/site/docs", ROOT / "build/site/html"
PROSE = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
LINK = re.compile(r"(!?\[[^\]]*\]\()(?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]+)?\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
KINDS = ("index.html", "settings/index.html", "api/types/index.html", "tutorials/frozen/index.html")
"""One page of each kind, which is looked at in dark colours, too."""
LANGUAGES = {".yaml": "yaml", ".py": "python", ".toml": "toml", ".txt": "text", ".jsonl": "json"}


def pages() -> dict[Path, Path]:
    """Where each file of the repository is in the site, by its path."""
    found = {path: DOCS / path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.*")}
    for name in PROSE:
        found[ROOT / name] = DOCS / name
    for path in [*ROOT.glob("plugins/*/README.md"), *ROOT.glob("examples/*/README.md")]:
        found[path] = DOCS / path.parts[-3] / f"{path.parts[-2]}.md"
    found[ROOT / "README.md"] = DOCS / "index.md"
    for path in (ROOT / "docs/tutorials").glob("*.py"):
        found[path] = found[path].with_suffix(".md")
    return {origin: place for origin, place in found.items() if origin.suffix != ".dot"}


def place_of(target: Path, places: dict[Path, Path]) -> Path:
    """The page that shows a file or folder of the repository; made for a file that has none."""
    for path in (target, target / "README.md"):
        if path in places:
            return places[path]
    if not target.is_file():
        raise SystemExit(f"{target.relative_to(ROOT)}: no file, and no folder with a README.md")
    name = target.relative_to(ROOT)
    place = DOCS / "source" / f"{name}.md"
    place.parent.mkdir(parents=True, exist_ok=True)
    text = target.read_text(encoding="utf-8")
    language = LANGUAGES.get(target.suffix, "text")
    place.write_text(f"# {name}\n\n````{language}\n{text}````\n", encoding="utf-8")
    return place


def with_links(text: str, origin: Path, places: dict[Path, Path]) -> str:
    """A page whose links lead to pages of the site."""

    def led(match: re.Match[str]) -> str:
        if origin.suffix == ".py" and match[1].startswith("!"):  # a figure that it has drawn
            return match[0]
        target = (origin.parent / match[2]).resolve()
        place = os.path.relpath(place_of(target, places), places[origin].parent)
        return f"{match[1]}{place}{match[3] or ''})"

    def prose() -> Iterator[str]:
        end = 0
        for fence in FENCE.finditer(text):
            yield LINK.sub(led, text[end : fence.start()])
            yield fence[0]
            end = fence.end()
        yield LINK.sub(led, text[end:])

    return "".join(prose())


def beside_this_environment(folder: Path) -> dict[str, str]:
    """Variables under which what a tutorial installs lands in ``folder``, and is found there."""
    folder.mkdir()  # before Python looks: what is not there when it starts is not looked at again
    return {
        "PIP_TARGET": str(folder),
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads this as the value of build_isolation
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTHONPATH": str(folder),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",  # figures go into the page
    }


def tutorial(path: Path, place: Path, run: bool) -> str:
    """A notebook as Markdown, with what it prints; the notebook itself lies beside the page."""
    import jupytext  # not needed to check a built site
    import nbformat
    from nbclient import NotebookClient
    from nbconvert import MarkdownExporter
    from nbconvert.filters import strip_ansi

    notebook = jupytext.read(path)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    notebook.metadata["language_info"] = {"name": "python"}  # so that code is coloured
    if run:
        started, folder = time.monotonic(), ROOT / "build/site/run" / path.stem
        folder.mkdir(parents=True)
        for beside in path.parent.glob("*.json"):  # recordings
            shutil.copy(beside, folder)
        os.environ |= {"OMP_NUM_THREADS": "1", **beside_this_environment(folder / "site")}
        where = {"metadata": {"path": str(folder)}}
        NotebookClient(notebook, timeout=900, resources=where, coalesce_streams=True).execute()
        print(f"{path.name} ran in {time.monotonic() - started:.0f} s")
    for cell in notebook.cells:  # progress bars and the libraries' remarks are not the tutorial's
        if said := [out for out in cell.get("outputs", ()) if out.get("name") == "stderr"]:
            print(*(out["text"] for out in said), file=sys.stderr)
            cell["outputs"] = [out for out in cell["outputs"] if out not in said]
        for out in cell.get("outputs", ()):
            if "text" in out:
                out["text"] = strip_ansi(out["text"])  # the kernel asks every command for colours
    nbformat.write(notebook, place.with_suffix(".ipynb"))
    named = {"unique_key": path.stem, "output_files_dir": f"{path.stem}_files"}
    text, made = MarkdownExporter().from_notebook_node(notebook, named)
    for name, picture in made["outputs"].items():
        (place.parent / name).parent.mkdir(exist_ok=True)
        (place.parent / name).write_bytes(picture)
    return str(text).lstrip()


def is_lab_note(origin: Path) -> bool:
    """Whether a page is the long form of what others say: not searched, not in the navigation."""
    return origin.parent.name == "notes" or origin.name.startswith("results-")


def prepare(run: bool) -> None:
    """Fills build/site/docs."""
    shutil.rmtree(ROOT / "build/site", ignore_errors=True)
    places = pages()
    for origin, place in places.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        if origin.parent.name == "tutorials" and origin.suffix == ".py":
            text = tutorial(origin, place, run)
        elif origin.suffix == ".md" and origin != ROOT / "README.md":
            text = origin.read_text(encoding="utf-8")
        else:
            if place.suffix != ".md":
                shutil.copyfile(origin, place)
            continue
        text = with_links(text, origin, places)
        if is_lab_note(origin):
            text = f"---\nsearch:\n  exclude: true\n---\n\n{text}"
        if origin.suffix == ".py":
            title, _, rest = text.partition("\n")
            text = f"{title}\n\n[Download this notebook]({origin.stem}.ipynb)\n{rest}"
        place.write_text(text, encoding="utf-8")


class Page(HTMLParser):
    """What a page links to, loads from elsewhere, and can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: D102
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag != "a" and given.get("rel") != "canonical":
            self.loads += [given[name] for name in ("src", "href", "data") if name in given]


def check() -> list[str]:
    """What is wrong with the built site; prints the links that leave it."""
    built = {path: Page(path) for path in HTML.rglob("*.html")}
    faults, outside = [], set[str]()
    for path, page in built.items():
        name = path.relative_to(HTML)
        if "mermaid" in page.anchors:
            faults.append(f"{name}: a mermaid diagram, whose script comes from another host")
        for link in page.links + page.loads:
            if urlsplit(link).scheme in ("http", "https") or link.startswith("//"):
                outside.add(link)
                if link in page.loads:
                    faults.append(f"{name}: loads {link}")
                continue
            if urlsplit(link).scheme or path.name == "404.html":
                continue
            address, anchor = urldefrag(unquote(link))
            target = (path.parent / address).resolve() if address else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                faults.append(f"{name}: no {link}")
            elif anchor and target in built and anchor not in built[target].anchors:
                faults.append(f"{name}: no anchor {link}")
    print("links that leave the site, not fetched:", *sorted(outside), sep="\n  ")
    return faults + misplaced() + undocumented(built)


def undocumented(built: dict[Path, Page]) -> list[str]:
    """Public names that the API pages lack."""
    sys.path.insert(0, str(ROOT))
    import evoprompt

    known = {anchor for page in built.values() for anchor in page.anchors}
    found = [getattr(evoprompt, name) for name in evoprompt.__all__]
    names = {
        f"{value.__module__}.{value.__qualname__}"
        for value in found
        if hasattr(value, "__qualname__")
    }
    ours = {name for name in names if name.startswith("evoprompt.")}
    return [f"no entry of the API is {name}" for name in sorted(ours - known)]


def misplaced() -> list[str]:
    """Pages of docs/ that the navigation names not once; lab notes have a page of their own."""
    text = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    listed = re.findall(r"'([^']+[.]md)'", str(tomllib.loads(text)["project"]["nav"]))
    places = [
        place.relative_to(DOCS)
        for origin, place in pages().items()
        if place.suffix == ".md" and not is_lab_note(origin)
    ]
    found = {str(p) for p in places if p.parts[0] not in ("plugins", "examples")}
    times = {name: listed.count(name) for name in sorted(found | {*listed})}
    return [f"{name} is {n} times in the navigation" for name, n in times.items() if n != 1]


def barriers(every_page: bool) -> list[str]:
    """Return what axe holds for serious or critical, in every page or in one of each kind."""
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    assert program is not None, "no chromium here; required: apt-get install chromium"
    found = dict[str, None]()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        light, dark = browser.new_page(), browser.new_page(color_scheme="dark")
        kinds = [HTML / name for name in KINDS]
        paths = sorted(HTML.rglob("*.html")) if every_page else kinds
        for page, path in [*((light, path) for path in paths), *((dark, path) for path in kinds)]:
            page.goto(path.as_uri())
            for fault in Axe().run(page).response["violations"]:
                if fault["impact"] in ("serious", "critical"):
                    where = f"{path.relative_to(HTML)}{', dark' if page is dark else ''}"
                    for node in fault["nodes"]:
                        found[f"{where}: {fault['id']}: {node['html'][:160]}"] = None
    return list(found)


def main() -> None:
    """Prepares, builds and checks; exits with 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--skip-run", action="store_true", help="do not run the tutorials")
    parser.add_argument(
        "--axe", choices=("kinds", "all"), help="look for barriers in Chromium, in these pages"
    )
    asked = parser.parse_args()
    prepare(run=not asked.skip_run)
    subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"], cwd=ROOT, check=True
    )
    faults = check() + (barriers(asked.axe == "all") if asked.axe else [])
    print(*faults, sep="\n")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
