"""Reads and writes the YAML of a run: YAML 1.2, in which ``no`` is a text and 1e-4 a number."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from pathlib import Path

from pydantic import JsonValue, TypeAdapter, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import SafeRepresenter

from evoprompt.support.errors import InputError
from evoprompt.support.text import format_error

_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


def parse(text: str, source: str) -> JsonValue:
    """The value that YAML ``text`` describes.

    Raises:
        InputError: it is not YAML; names ``source``, line and column.
    """
    try:
        for event in _reader().parse(text):
            if isinstance(event, AliasEvent):  # may stand for itself
                place = f"{source}:{event.start_mark.line + 1}:{event.start_mark.column + 1}"
                raise InputError(f"{place}: an alias (*name) is used; required: the value itself")
        value = _JSON.validate_python(_reader().load(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
        raise InputError(f"{place}: {error.problem}; required: valid YAML; correct it") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"] if isinstance(part, int | str))
        raise InputError(
            f"{source}: {place or 'it'} is no plain value; required: texts, numbers, true, false, "
            "null, lists and mappings with texts as keys; quote dates"
        ) from error
    except InputError:
        raise
    except (YAMLError, ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"{source}: {format_error(error)}; required: valid YAML; correct it"
        ) from error
    return value


def _reader() -> YAML:
    return YAML(typ="safe", pure=True)


def read(path: Path) -> dict[str, JsonValue]:
    """The mapping in the YAML file ``path``.

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
    """``value`` as YAML that :func:`parse` reads back to the same."""
    yaml = _reader()
    yaml.default_flow_style = False
    yaml.width = 2**31  # where it folds a line of two spaces, it loses one
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.Representer = _Representer
    text = StringIO()
    yaml.dump(dict(value), text)
    return text.getvalue()


class _Representer(SafeRepresenter):
    """Writes what :func:`parse` reads: texts of several lines as they are, and no aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def represent_str(self, data: str) -> ScalarNode:
        style = "|" if "\n" in data else None
        if not data.replace("\n", "").isprintable():
            style = '"'  # some line separators would else not be read back
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Representer.add_representer(str, _Representer.represent_str)
