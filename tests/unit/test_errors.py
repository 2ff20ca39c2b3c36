"""Errors keep their message and hint on the way between processes."""

import pickle

import pytest

from accel_train.errors import LocalError, UserError


@pytest.mark.parametrize(("kind", "everywhere"), [(UserError, True), (LocalError, False)])
def test_error_survives_pickling(kind: type[UserError], everywhere: bool) -> None:
    copy = pickle.loads(pickle.dumps(kind("what", "how")))
    assert (type(copy), copy.message, copy.hint, copy.everywhere) == (kind, "what", "how", everywhere)
