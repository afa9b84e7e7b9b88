"""Registers the architectures, scores, mechanisms, schedules, metrics, callbacks and measures of plugins.

A plugin is a Python file that the user names on the command line of any command, `--plugins my_score.py`:

    from qkv.attention.scores import Score
    from qkv.plugins import register_score

    @register_score("negative_distance", meaning="-|q - k|^2")
    class NegativeDistance(Score):
        def call(self, query, key): ...

Configs can then use the name. They do not contain the file, so each command on such a run needs the same `--plugins`.
"""

from collections.abc import Callable, MutableMapping
from typing import Any, TypeVar

import keras
import numpy as np
from keras.callbacks import Callback

from .attention.mechanisms import MECHANISM_CLASSES
from .attention.mechanisms.softmax import Mechanism
from .attention.scores import SCORE_CLASSES, Score
from .config import choices
from .inspection.measures import MEASURES, Measure, SiteWeights
from .metrics import METRIC_FUNCTIONS, MetricInputs
from .model.build import add_architecture
from .model.interface import TranslationModel
from .training.callbacks import CALLBACK_FACTORIES
from .training.schedule import SCHEDULE_FUNCTIONS

__all__ = [
    "register_architecture",
    "register_callback",
    "register_measure",
    "register_mechanism",
    "register_metric",
    "register_schedule",
    "register_score",
]

Entry = TypeVar("Entry")
ScheduleFunction = TypeVar("ScheduleFunction", bound=Callable[[Any, int, int | None], Any])
MetricFunction = TypeVar("MetricFunction", bound=Callable[[MetricInputs], float])
MeasureFunction = TypeVar("MeasureFunction", bound=Callable[[SiteWeights], np.ndarray])


def register_score(name: str, *, meaning: str = "a plugin's") -> Callable[[type[Score]], type[Score]]:
    """Returns a decorator that registers a score function, a subclass of `qkv.attention.scores.Score`.

    The attributes of the class declare its abilities.

    Args:
        name: the name in configs.
        meaning: the formula, for help texts.

    Raises:
        ValueError: the name is taken or cannot be written in a config.
    """

    def row(score: type[Score]) -> choices.model.ScoreInfo:
        return choices.model.ScoreInfo(meaning, score.projected, score.by_angle, score.is_product)

    return _decorator(name, choices.model.SCORE_INFO, row, SCORE_CLASSES)


def register_mechanism(
    name: str, *, meaning: str = "a plugin's", refused: tuple[tuple[str, str], ...] = ()
) -> Callable[[type[Mechanism]], type[Mechanism]]:
    """Returns a decorator that registers a mechanism, a subclass of `qkv.attention.mechanisms.softmax.Mechanism`.

    The attributes of the class declare its abilities.

    Args:
        name: the name in configs.
        meaning: a description, for help texts.
        refused: pairs `(site, reason)` for the sites where the mechanism cannot be used. A site is one of
            `qkv.config.choices.model.ATTENTION_SITES`.

    Raises:
        ValueError: the name is taken or cannot be written in a config.
    """

    def row(mechanism: type[Mechanism]) -> choices.model.MechanismInfo:
        biased = mechanism.takes_bias or not mechanism.uses_score
        distances = tuple(kind for kind in choices.model.RELATIVE_POSITIONS if biased or kind != "alibi")
        return choices.model.MechanismInfo(
            meaning,
            refused,
            mechanism.uses_score,
            mechanism.holds_weights,
            distances=distances,
            has_sink=mechanism.has_sink,
            takes_segments=mechanism.takes_segments,
        )

    return _decorator(name, choices.model.MECHANISM_INFO, row, MECHANISM_CLASSES)


def register_architecture(
    name: str, *, meaning: str = "a plugin's", settings: type | None = None
) -> Callable[[type[TranslationModel]], type[TranslationModel]]:
    """Returns a decorator that registers an architecture, a subclass of `Transformer`, `DecoderOnly` or `Recurrent`.

    The class is also registered with Keras, unless it is already, so that `qkv.load_model` finds it.

    Args:
        name: the value of `model.architecture` in configs.
        meaning: a description, for help texts.
        settings: the class of the settings in the section `model`, if the constructor has arguments of its own: a
            subclass of `qkv.config.model.TransformerSettings`, `qkv.config.model.DecoderOnlySettings` or
            `qkv.config.model.RecurrentSettings` with a field for each of them. By default the settings of the base
            class.

    Raises:
        ValueError: the name is taken or cannot be written in a config; the class is not such a subclass; `settings`
            belong to another base class; or the constructor lacks an argument for a setting.
    """

    add = _decorator(name, choices.model.ARCHITECTURES, lambda _: meaning, {})

    def register(model: type[TranslationModel]) -> type[TranslationModel]:
        add_architecture(name, meaning, settings, model)
        return add(model)

    return register


def register_schedule(
    name: str, *, meaning: str = "a plugin's", ends_at_zero: bool = False
) -> Callable[[ScheduleFunction], ScheduleFunction]:
    """Returns a decorator that registers a learning-rate schedule.

    A schedule is a function `schedule(update, warmup, total)` of the update, a float tensor that counts from 1; of the
    number of warm-up updates, at least 1; and of the number of updates after which the rate is zero, or None. It
    returns the learning rate after warm-up as a share of the peak, a number or a float tensor.

    Args:
        name: the name in configs.
        meaning: a description, for help texts.
        ends_at_zero: whether the learning rate falls to zero at `training.max_updates`. Such a schedule needs this
            setting.

    Raises:
        ValueError: the name is taken or cannot be written in a config.
    """
    row = choices.training.ScheduleInfo(meaning, ends_at_zero)
    return _decorator(name, choices.training.SCHEDULE_INFO, lambda _: row, SCHEDULE_FUNCTIONS)


def register_metric(
    name: str, *, title: str = "", digits: int = 2, lower_is_better: bool = False
) -> Callable[[MetricFunction], MetricFunction]:
    """Returns a decorator that registers a metric, a function of `qkv.metrics.MetricInputs` that returns a number.

    Validations and evaluations then compute the metric, and the best checkpoint can be chosen by it.

    Args:
        name: the name in configs and tables.
        title: the name in progress lines; by default `name`.
        digits: the number of printed decimals.
        lower_is_better: whether a lower value is better.

    Raises:
        ValueError: the name is taken or cannot be written in a config.
    """
    row = choices.translation.MetricInfo(title or name, digits, lower_is_better)
    return _decorator(name, choices.translation.METRIC_INFO, lambda _: row, METRIC_FUNCTIONS)


def register_callback(
    name: str, *, meaning: str = "a plugin's"
) -> Callable[[Callable[..., Callback]], Callable[..., Callback]]:
    """Returns a decorator that registers a callback for the setting `training.callbacks`.

    It is applied to a subclass of `keras.callbacks.Callback`, or to a function that returns a callback.
    `qkv.training.loop` lists the arguments of the callback's methods.

    Args:
        name: the name in configs.
        meaning: a description, for help texts.

    Raises:
        ValueError: the name is taken or cannot be written in a config.
    """
    return _decorator(
        name, choices.training.CALLBACK_INFO, lambda _: choices.training.CallbackInfo(meaning), CALLBACK_FACTORIES
    )


def register_measure(name: str, **row: Any) -> Callable[[MeasureFunction], MeasureFunction]:
    """Returns a decorator that registers a measure of attention heads.

    A measure is a function of `qkv.inspection.measures.SiteWeights`.

    The measure becomes a column of heads.csv and sentences.csv.

    Args:
        name: the name of the column.
        **row: further arguments of `qkv.inspection.measures.Measure`, such as its labels on the viewer's page and
            `in_tensorboard`.

    Raises:
        ValueError: the name is taken, or has characters other than letters, digits and underscores.
    """
    return _decorator(name, MEASURES, lambda function: Measure(function=function, **row), {})


def _decorator(
    name: str, descriptions: MutableMapping[str, Any], describe: Callable[[Any], Any], table: MutableMapping[str, Any]
) -> Callable[[Entry], Entry]:
    """Returns a decorator that adds a class or function to two tables.

    A layer or model that Keras does not know yet is registered there too, so that saved models can be loaded.

    Args:
        name: the key in both tables.
        descriptions: the table of the descriptions, such as help texts.
        describe: a function that takes the class or function, and returns its description.
        table: the table of the classes or functions.

    Raises:
        ValueError: the name is taken or cannot be written in a config.
    """
    if not name.isidentifier():
        raise ValueError(f"name: expected letters, digits and underscores, found {name!r}")
    if name in descriptions:
        raise ValueError(f"name: expected a name that is not taken ({', '.join(descriptions)}), found {name!r}")

    def register(entry: Entry) -> Entry:
        descriptions[name] = describe(entry)
        table[name] = entry
        if isinstance(entry, type) and issubclass(entry, keras.Layer) and not _is_known_to_keras(entry):
            keras.saving.register_keras_serializable(package="plugins")(entry)
        return entry

    return register


def _is_known_to_keras(layer: type[keras.Layer]) -> bool:
    """Returns whether a class is registered in Keras, so that saved models with it can be loaded."""
    return bool(keras.saving.get_registered_name(layer) != layer.__name__)
