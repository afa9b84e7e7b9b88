"""The changes of a question as variables, which graphs follow that were traced once."""

from collections.abc import Iterable, Mapping

import keras
import numpy as np
import tensorflow as tf

from ..errors import InputError
from ..inspection.changed_model import changeable_layers
from ..inspection.intervention import CHANGES, UNCHANGED, Intervention
from .question import GivenRow, HeadChange

NO_ROW = (-1, 0, 0)
NO_WEIGHTS = (0.0,)  # for as many keys as there are


class ChangeVariables:
    """What is changed in a model's heads.

    Args:
        model: any `TranslationModel`; nothing can be changed in one that is no Transformer.

    Attributes:
        heads: for each site whose heads can be changed, the number of layers and of heads.
        of_heads: interventions in whole heads, for `ChangedModel`.
        of_heads_and_row: the same, and in one row.
    """

    def __init__(self, model: keras.Model) -> None:
        layers = changeable_layers(model)
        self.heads = {site: (len(found), found[0].num_heads) for site, found in layers.items()}
        self._kinds = {site: tf.Variable(np.full(shape, UNCHANGED, "int32")) for site, shape in self.heads.items()}
        self._rows = {site: tf.Variable(np.array(NO_ROW, "int32")) for site in self.heads}
        self._weights = {site: tf.Variable(np.array(NO_WEIGHTS, "float32"), shape=[None]) for site in self.heads}
        self.of_heads: Mapping[str, Intervention] = {site: Intervention(kinds) for site, kinds in self._kinds.items()}
        self.of_heads_and_row: Mapping[str, Intervention] = {
            site: Intervention(kinds, self._rows[site], self._weights[site]) for site, kinds in self._kinds.items()
        }

    def set(self, changes: Iterable[HeadChange], row: GivenRow | None = None) -> None:
        """Sets what is changed from now on.

        Raises:
            InputError: there is no such head.
        """
        kinds = {site: np.full(shape, UNCHANGED, "int32") for site, shape in self.heads.items()}
        for change in changes:
            self._check_head(change)
            kinds[change.site][change.layer, change.head] = list(CHANGES).index(change.change)
        if row is not None:
            self._check_head(row)
        for site in self.heads:
            self._kinds[site].assign(kinds[site])
            here = row is not None and row.site == site
            self._rows[site].assign((row.layer, row.head, row.query) if row and here else NO_ROW)
            self._weights[site].assign(row.weights if row and here else NO_WEIGHTS)

    def _check_head(self, place: HeadChange | GivenRow) -> None:
        if not self.heads:
            raise InputError("changes: expected none, since heads can be changed in a Transformer alone")
        if place.site not in self.heads:
            raise InputError(f"site: expected {', '.join(self.heads)}, found {place.site!r:.60}")
        layers, heads = self.heads[place.site]
        if place.layer >= layers or place.head >= heads:
            raise InputError(
                f"{place.site}: expected a layer below {layers} and a head below {heads}, found layer {place.layer}, "
                f"head {place.head}"
            )
