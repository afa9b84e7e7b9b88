"""Reads back what evaluations and runs say of themselves, for tables that show it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files.json import read_json_object


def read_metrics(path: Path) -> dict[str, Any]:
    """Reads the `metrics.json` of an evaluation.

    Raises:
        InputError: it is damaged.
    """
    metrics = _read_json(path, _METRICS)
    _check_types(path, metrics.get("decoding", {}), _DECODING, "decoding.")
    _check_types(path, metrics.get("alignment", {}), _ALIGNMENT, "alignment.")
    return metrics


def read_manifest(path: Path) -> dict[str, Any]:
    """Reads the `manifest.json` of a run.

    Raises:
        InputError: it is damaged.
    """
    return _read_json(path, _MANIFEST)


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_number(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and not abs(value) > 1e18)  # not-a-number is one


def _is_section(value: Any) -> bool:
    return isinstance(value, dict)


def _are_members(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, dict) and type(number := one.get("parameters")) is int and _is_number(number) for one in value
    )


Types = Mapping[str, Callable[[Any], bool]]

_METRICS: Types = {
    **dict.fromkeys(("bleu_tokenizer", "mode"), _is_text),
    **dict.fromkeys(("checkpoint", "search"), lambda value: isinstance(value, str)),
    **dict.fromkeys(("decoding", "alignment"), _is_section),
    "loss": _is_number,
    "members": _are_members,
}
_DECODING: Types = dict.fromkeys(("beam_size", "length_penalty"), lambda value: value is not None and _is_number(value))
_ALIGNMENT: Types = {"aer": _is_number}
_MANIFEST: Types = {"parameters": _is_number, "data_sha256": _is_section}


def _read_json(path: Path, types: Types) -> dict[str, Any]:
    try:
        value = read_json_object(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}; evaluate the run again") from None
    _check_types(path, value, types)
    return value


def _check_types(path: Path, values: Mapping[str, Any], types: Types, section: str = "") -> None:
    for name, is_valid in types.items():
        if name in values and not is_valid(values[name]):
            raise InputError(
                f"{path}: {section}{name} cannot be {str(values[name])[:40]!r}; restore the file, or evaluate the run "
                "again"
            )
