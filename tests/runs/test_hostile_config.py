"""A wrong configuration ends in one line, whatever is wrong with it, and at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from counted import counted
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from evoprompt.experiments.config import load
from evoprompt.support import yamlfile
from evoprompt.support.errors import InputError

MOST_CALLS = 2_000_000
"""Of functions; the most is 230,000."""
GOOD = "task: fake\nhost: fake\nbudget: 100\nevaluate_every: 50\n"
BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(20)
)
WRONG: dict[str, bytes] = {
    "empty": b"",
    "a list": b"- 1\n",
    "a number": b"7\n",
    "cut UTF-8": GOOD.encode() + b"arms: \xc3",
    "UTF-16": GOOD.encode("utf-16"),
    "binary": bytes(range(256)),
    "NUL": GOOD.encode() + b"\x00",
    "alias bomb": GOOD.encode() + BOMB.encode(),
    "alias of itself": b"a: &a [*a]\n",
    "deep mapping": b"{a: " * 500,
    "list as key": GOOD.encode() + b"? [1, 2]\n: 3\n",
    "number as key": GOOD.encode() + b"3: 4\n",
    "date": GOOD.encode() + b"engine: {window: 2026-11-22}\n",
    "impossible date": GOOD.encode() + b"engine: {window: 2026-13-45}\n",
    "tag": GOOD.encode() + b"engine: !!python/object/apply:os.system [ls]\n",
    "binary tag": GOOD.encode() + b"engine: !!binary abcd\n",
    "set": GOOD.encode() + b"engine: !!set {a, b}\n",
    "merge key": GOOD.encode() + b"engine: {<<: 3}\n",
    "huge integer": GOOD.encode().replace(b"100", b"9" * 5_000),
    "sexagesimal": GOOD.encode().replace(b"100", b"1:" * 4_000 + b"1"),
}
SETTINGS = {
    "seeds": ["1e9", "1000000000", "-1", "0.5", ".nan", "[[1]]", "{a: 1}", "[]", "[1, 1]", "null"],
    "arms": ["[[a]]", "[1]", "3", "[]", "{a: [1]}", "null", "{'../a': null}", "{a: {after: a}}"],
    "budget": ["0", ".nan", ".inf", "x", "[]", "1.5", "'1e400'"],
    "evaluate_every": ["0", "null"],
    "target": [".inf", "{}"],
    "task": ["3", "{}", "{name: 3}", "null", "''", "{name: [a]}"],
    "host": ["[]", "{name: {}}"],
    "engine": ["3", "{proposer: [1]}", "{window: .nan}", "{odd: 1}", "{sampler: {}}"],
    "smoke": ["3", "{budget: x}", "{arms: [[a]]}", "{engine: 3}"],
    "odd": ["3"],
}


def told_of(path: Path) -> str:
    """What loading says, nothing if it succeeds; another error than an InputError is raised."""
    try:
        load(path)
    except InputError as error:
        return str(error)
    return ""


def refusal(path: Path, *overrides: str) -> str:
    with counted() as work, pytest.raises(InputError) as raised:
        load(path, overrides)
    assert work.calls < MOST_CALLS
    told = str(raised.value)
    assert "\n" not in told
    assert len(told) < 5_000
    return told


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_is_no_configuration_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_bytes(WRONG[name])
    assert str(path) in refusal(path)


@pytest.mark.parametrize("key", SETTINGS)
def test_a_setting_of_a_wrong_kind_is_named_in_one_line(tmp_path: Path, key: str) -> None:
    path = tmp_path / "run.yaml"
    lines = [line for line in GOOD.splitlines() if not line.startswith(f"{key}:")]
    for value in SETTINGS[key]:
        path.write_text("\n".join([*lines, f"{key}: {value}", ""]), encoding="utf-8")
        refusal(path)


def test_a_wrong_override_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(GOOD, encoding="utf-8")
    for text in ("", "a", "=3", "a..b=1", "seeds=[", "engine=&a [*a]", "a.b=\x00"):
        refusal(path, text)


PUNCTUATION = st.sampled_from("ab:-[]{}&*!|>?,#'\"% \n\t10.\x85\u2028")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10**12)
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["static", "coevolve", "fake", "name", "deap"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "engine", "host", "after", "budget", "proposer", "window", "static", "x"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@seed(20261122)
@settings(
    max_examples=5 * settings().max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(changed=st.dictionaries(st.sampled_from(sorted(SETTINGS)), VALUES, min_size=1, max_size=3))
def test_any_settings_load_or_are_refused(tmp_path: Path, changed: dict[str, object]) -> None:
    path = tmp_path / "run.yaml"
    base = {"task": "fake", "host": "fake", "budget": 100, "evaluate_every": 50}
    path.write_text(yamlfile.dump({**base, **changed}), encoding="utf-8")  # type: ignore[dict-item]
    assert "\n" not in told_of(path)


@seed(20261122)
@settings(
    max_examples=5 * settings().max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(text=st.text(alphabet=PUNCTUATION, max_size=60))
def test_any_text_loads_or_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(GOOD + text, encoding="utf-8")
    assert "\n" not in told_of(path)
