"""A process that was forked after TensorFlow had computed is refused; one that was forked before is not."""

import os
import sys
import warnings
from types import SimpleNamespace

import pytest

from qkv import api
from qkv.errors import InputError
from qkv.runtime import forks

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def in_child(act):
    """Whether the `InputError` of forks is raised in a child of this process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python 3.12 and later: this process has threads
        child = os.fork()
    if child == 0:
        try:
            act()
            os._exit(0)
        except InputError as error:
            os._exit(2 if "load the run after the fork" in str(error) else 3)
        finally:
            os._exit(4)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@needs_fork
@pytest.mark.parametrize("computed", [True, False])
def test_only_a_child_of_a_process_that_has_computed_is_refused(monkeypatch, computed):
    context = SimpleNamespace(context_safe=lambda: SimpleNamespace(_initialized=computed))
    monkeypatch.setitem(sys.modules, "tensorflow.python.eager.context", context)
    assert in_child(forks.refuse_after_fork) == (2 if computed else 0)
    forks.refuse_after_fork()  # the parent goes on


@needs_fork
def test_tensorflow_says_whether_it_has_computed():
    import tensorflow as tf

    tf.constant(1)
    assert in_child(forks.refuse_after_fork) == 2


def test_every_door_of_a_run_is_closed_in_such_a_child(unbroken, monkeypatch):
    run = api.load(unbroken)
    monkeypatch.setattr(forks, "_is_unusable", True)
    pair = "the cat sleeps .", "le chat dort ."
    doors = [
        lambda: api.load(unbroken),
        lambda: api.import_marian(unbroken, unbroken),
        lambda: run.translate(pair[0]),
        lambda: run.translate(pair[0], beam_size=1),
        lambda: run.align(*pair),
        lambda: run.evaluate(),
        lambda: run.export("saved_model", "exported"),
        lambda: run.trained.cache([pair]),
        lambda: run.trained.patch(pair, pair, ["*"]),
        lambda: run.trained.explain_score(pair, "decoder.0.cross", head=0, row=0),
        lambda: run.trained.recorder(["cross"]),
    ]
    for door in doors:
        with pytest.raises(InputError, match="forked after TensorFlow"):
            door()
