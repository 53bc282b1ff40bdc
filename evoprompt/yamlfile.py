"""Reads and writes the YAML of a run: repeated keys are errors, and 1e-4 is a number."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import yaml
from pydantic import JsonValue, TypeAdapter, ValidationError

from evoprompt.errors import InputError
from evoprompt.text import told

LARGEST = 4_000_000
"""Bytes a file of settings may have."""

_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader without its traps.

    YAML 1.1 reads ``1e-4`` as text, PyYAML lets the last of two equal keys win in silence, and
    aliases may stand for more than memory holds, or for themselves.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.constructor.ConstructorError(
                None, None, "an alias (*name) is used", self.get_mark()
            )
        node: yaml.Node | None = super().compose_node(parent, index)
        return node

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> str:
        value: str = super().construct_scalar(node)
        if "\0" in value:
            raise yaml.constructor.ConstructorError(
                None, None, "a NUL character is used", node.start_mark
            )
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        keys: set[object] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, "a list or mapping is used as a key", key_node.start_mark
                )
            key = self.construct_object(key_node, deep=True)
            if key in keys:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is given twice", key_node.start_mark
                )
            keys.add(key)
        mapping: dict[object, object] = super().construct_mapping(node, deep)
        return mapping


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+0123456789."),
)


def parse(text: str, source: str) -> JsonValue:
    """The value that YAML ``text`` describes.

    Raises:
        InputError: it is not YAML; names ``source``, line and column.
    """
    try:
        value: JsonValue = _JSON.validate_python(yaml.load(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
        raise InputError(f"{place}: {error.problem}; required: valid YAML; correct it") from error
    except yaml.YAMLError as error:
        raise InputError(f"{source}: {told(error)}; required: valid YAML; correct it") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"] if isinstance(part, int | str))
        raise InputError(
            f"{source}: {place or 'it'} is no plain value; required: texts, numbers, true, false, "
            "null, lists and mappings with texts as keys; quote dates"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source}: {told(error)}; required: valid YAML; correct it") from error
    return value


def read(path: Path) -> dict[str, JsonValue]:
    """The mapping in the YAML file ``path``.

    Raises:
        InputError: the file cannot be read, is not YAML or does not hold a mapping.
    """
    try:
        if path.is_file() and path.stat().st_size > LARGEST:
            raise InputError(
                f"{path} has {path.stat().st_size:,} bytes; required: at most {LARGEST:,}, the "
                "settings of a run; check the path"
            )
        text = path.read_text(encoding="utf-8")
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


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are read."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    if not value.replace("\n", "").isprintable():
        style = '"'  # PyYAML writes some line separators so that it does not read them back
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def dump(value: Mapping[str, JsonValue]) -> str:
    """``value`` as YAML that :func:`parse` reads back to the same."""
    text: str = yaml.dump(
        dict(value), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100
    )
    return text
