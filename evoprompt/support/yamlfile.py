"""Reader and writer of a run's YAML: YAML 1.2, in which ``no`` is a text and 1e-4 a number."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from pathlib import Path

from pydantic import JsonValue, TypeAdapter, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import SafeRepresenter
from ruamel.yaml.scanner import Scanner

from evoprompt.support.errors import InputError
from evoprompt.support.text import format_error

_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)
_MAX_DEPTH = 100
_SEPARATORS = "\x85\u2028\u2029"
"""Characters that end a line in YAML 1.1, and for ruamel.yaml, but not in YAML 1.2."""


def parse(text: str, source: str) -> JsonValue:
    """Return the value that YAML ``text`` describes.

    Raises:
        InputError: the text is not YAML; the message names ``source``, line and column.
    """
    stand_ins = _stand_ins(text)
    text = text.translate(str.maketrans(_SEPARATORS, stand_ins))
    try:
        depth = 0
        for event in _reader().parse(text):
            depth += isinstance(event, CollectionStartEvent)
            depth -= isinstance(event, CollectionEndEvent)
            fault = ""
            if isinstance(event, AliasEvent):  # an alias may refer to itself
                fault = "an alias (*name) is used; required: the value itself"
            elif depth > _MAX_DEPTH:  # the parser's time grows with the square of the depth
                fault = (
                    f"lists and mappings are nested more than {_MAX_DEPTH} deep; required: at most "
                    f"{_MAX_DEPTH}; correct it"
                )
            if fault:
                mark = event.start_mark
                raise InputError(f"{source}:{mark.line + 1}:{mark.column + 1}: {fault}")
        value = _JSON.validate_python(_reader().load(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark
        location = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
        raise InputError(
            f"{location}: {error.problem}; required: valid YAML; correct it"
        ) from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        location = ".".join(str(part) for part in first["loc"] if isinstance(part, int | str))
        raise InputError(
            f"{source}: {location or 'it'} is no plain value; required: texts, numbers, true, "
            "false, null, lists and mappings with texts as keys; quote dates"
        ) from error
    except InputError:
        raise
    except (YAMLError, ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"{source}: {format_error(error)}; required: valid YAML; correct it"
        ) from error
    return _with_separators(value, str.maketrans(stand_ins, _SEPARATORS))


class _TabScanner(Scanner):
    """Scanner that takes tabs between tokens as YAML 1.2 does; they may not indent."""

    def scan_to_next_token(self) -> None:
        """Skip spaces, comments and line breaks, and tabs behind a token of the same line."""
        reader = self.reader
        line = reader.buffer[reader.pointer - reader.column : reader.pointer]
        if line.strip():
            while reader.peek() in " \t":
                reader.forward()
        super().scan_to_next_token()


def _reader() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    yaml.Scanner = _TabScanner
    return yaml


def _stand_ins(text: str) -> str:
    """Return characters for private use that ``text`` does not hold, one for each separator."""
    used = set(text)
    unused = (chr(code) for code in range(0xE000, 0xF900) if chr(code) not in used)
    return "".join(next(unused) for _ in _SEPARATORS)


def _with_separators(value: JsonValue, separators: Mapping[int, int]) -> JsonValue:
    """Return ``value`` with the separators again in its texts and keys."""
    if isinstance(value, str):
        return value.translate(separators)
    if isinstance(value, list):
        return [_with_separators(inner, separators) for inner in value]
    if isinstance(value, dict):
        return {
            name.translate(separators): _with_separators(inner, separators)
            for name, inner in value.items()
        }
    return value


def read(path: Path) -> dict[str, JsonValue]:
    """Return the mapping in the YAML file ``path``.

    Raises:
        InputError: the file cannot be read, is not YAML or does not hold a mapping.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist; required: a YAML file; check the path") from error
    except IsADirectoryError as error:
        raise InputError(
            f"{path} is a directory; required: a YAML file; add --resume to continue a run in it"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({error}); required: a YAML file") from error
    value = parse(text, str(path))
    if not isinstance(value, dict):
        raise InputError(
            f"{path} holds {'nothing' if value is None else type(value).__name__}; required: a "
            "mapping of settings; docs/running.md lists them"
        )
    return value


def dump(value: Mapping[str, JsonValue]) -> str:
    """Return ``value`` as YAML that :func:`parse` reads back unchanged."""
    yaml = _reader()
    yaml.default_flow_style = False
    yaml.width = 2**31  # folding a line at two spaces would lose one of them
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.Representer = _Representer
    text = StringIO()
    yaml.dump(dict(value), text)
    return text.getvalue()


class _Representer(SafeRepresenter):
    """Writer of YAML for :func:`parse`: texts of several lines as they are, and no aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def represent_str(self, data: str) -> ScalarNode:
        style = "|" if "\n" in data else None
        if not data.replace("\n", "").isprintable():
            style = '"'  # otherwise some line separators would not be read back
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Representer.add_representer(str, _Representer.represent_str)
