"""The inside of a model by name: what its layers compute, read, or replaced by what they computed elsewhere.

Each architecture names its values itself, see `TranslationModel.places`; INSIDE.md has them all. Names may be globs,
such as `decoder.*.cross.scores`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import keras
import numpy as np
from keras import ops

from ..errors import InputError, did_you_mean
from ..layers.tap import Heads, Place, Returned
from ..model.interface import TranslationModel
from .inside_attention import attend_visited
from .visits import Read, Replace, Visit

Pair = tuple[Sequence[int], Sequence[int]]


def read_inside(model: TranslationModel, pair: Pair, names: Sequence[str] = ("*",)) -> tuple[dict[str, Any], Any]:
    """Reads one sentence pair in a teacher-forced pass without dropout.

    Args:
        model: of any architecture that names what is inside it.
        pair: ids of the source, up to EOS, and of the target, from BOS on; no padding.
        names: which values.

    Returns:
        the arrays by name, and the logits `(T, V)`.

    Raises:
        InputError: the architecture names nothing, or a name fits nothing.
    """
    read = Read()
    logits = _pass(model, pair, read)
    arrays = read.arrays()
    chosen = _choose(names, list(arrays), read.lacking)
    return {name: value for name, value in arrays.items() if name in chosen}, logits


def patch_inside(model: TranslationModel, clean: Pair, corrupted: Pair, names: Sequence[str]) -> np.ndarray:
    """Reads `corrupted` with the named values of `clean` in the place of its own; returns the logits `(T, V)`.

    Args: those of `read_inside`. A pair patched with itself gives its own logits bit for bit.

    Raises:
        InputError: as `read_inside`, or a value has another shape in the other pair.
    """
    given, _ = read_inside(model, clean, names)
    replace = Replace(given)
    logits = _pass(model, corrupted, replace)
    replace.check_all_used()
    return logits


def _choose(names: Sequence[str], known: list[str], lacking: Mapping[str, str]) -> set[str]:
    chosen = set()
    for name in names:
        fitting = {one for one in known if fnmatchcase(one, name)}
        if not fitting:
            reason = next((f": {why}" for one, why in lacking.items() if fnmatchcase(one, name)), "")
            hint = reason or did_you_mean(name, known)
            raise InputError(f"{name}: expected a name or glob of a value inside the model, found none{hint}")
        chosen |= fitting
    return chosen


def _pass(model: TranslationModel, pair: Pair, visit: Visit) -> np.ndarray:
    source, target = (np.array([ids], "int32") for ids in pair)
    of_source, of_target = (list(model.places(side)) for side in ("encoder", "decoder"))
    if not of_source or not of_target:
        raise InputError(
            f"{type(model).__name__} does not name what is inside it; expected an architecture that has the method "
            "`places` (pipeline/qkv/model/interface.py)"
        )
    with _visited(of_source, visit):
        memory = model.encode(source, training=False)
    with _visited(of_target, visit):
        output = model.decode(target, memory, training=False)
    return keras.ops.convert_to_numpy(output.logits)[0]


@contextmanager
def _visited(places: Sequence[Place], visit: Visit) -> Iterator[None]:
    """Calls `visit` with every value within the block, and goes on with what it returns."""
    taps = [_tap(place, visit) for place in places]
    for layer, method, function in taps:
        setattr(layer, method, function)  # on the object, so that its class stays as it is
    try:
        yield
    finally:
        for layer, method, _ in taps:
            delattr(layer, method)


def _tap(place: Place, visit: Visit) -> tuple[Any, str, Callable]:
    if isinstance(place, Heads):
        return place.layer, "attend", attend_visited(place, visit)
    usual = getattr(place.layer, place.method)
    return place.layer, place.method, lambda *inputs, **others: _visit_returned(place, usual(*inputs, **others), visit)


def _visit_returned(place: Returned, value: Any, visit: Visit) -> Any:
    if isinstance(place.name, str):
        return _visit_rows(place.name, value, visit)
    names = (*place.name, *[None] * len(value))[: len(value)]
    return tuple(one if name is None else _visit_rows(name, one, visit) for name, one in zip(names, value, strict=True))


def _visit_rows(name: str, value: Any, visit: Visit) -> Any:
    if len(value.shape) > 2:
        return visit(name, value)
    return visit(name, ops.expand_dims(value, 1))[:, 0]
