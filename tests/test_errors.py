"""Errors can be caught by the built-in they refine, and travel between processes."""

from __future__ import annotations

import pickle

import pytest

from evoprompt.support import errors

NAMED = {
    errors.InputError: ValueError,
    errors.UnknownAssignmentError: LookupError,
    errors.AlreadyToldError: ValueError,
    errors.StateError: ValueError,
    errors.AttachError: TypeError,
    errors.PluginError: LookupError,
    errors.ComponentError: RuntimeError,
    errors.UnwritableError: OSError,
    errors.NothingEvolvedError: RuntimeError,
}


@pytest.mark.parametrize(("error", "built_in"), NAMED.items())
def test_every_error_refines_a_built_in_and_pickles(
    error: type[Exception], built_in: type[Exception]
) -> None:
    raised = error("given, required, remedy")
    assert isinstance(raised, built_in)
    assert isinstance(raised, errors.EvopromptError)
    restored = pickle.loads(pickle.dumps(raised))
    assert type(restored) is error
    assert str(restored) == "given, required, remedy"


def test_causes_are_told_once_also_in_a_circle() -> None:
    first, second, third = KeyError(1), ValueError(2), OSError(3)
    first.__cause__, second.__context__, third.__cause__ = second, third, first
    assert list(errors.causes(first)) == [first, second, third]
    assert list(errors.causes(OSError(4)))[1:] == []
