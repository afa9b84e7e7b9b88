"""The file of a calibration: numbers as JSON, checked when they are read."""

import math
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from ..errors import InputError
from ..files.json import read_json_object, write_json
from ..statistics.reliability import ReliabilityBin
from .calibration import Calibration
from .link_probabilities import LinkProbabilities

FORMAT = 1
LARGEST_COEFFICIENT = 1e100  # sums of products with larger ones need not be finite
_NUMBERS = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def _check_coefficient(value: float) -> float:
    if abs(value) > LARGEST_COEFFICIENT:
        raise ValueError(f"expected a number from {-LARGEST_COEFFICIENT} to {LARGEST_COEFFICIENT}")
    return value


class _Bin(BaseModel):
    model_config = _NUMBERS

    low: float = Field(ge=0, le=1)
    high: float = Field(ge=0, le=1)
    number: int = Field(ge=1)
    predicted: float = Field(ge=0, le=1)
    right: float = Field(ge=0, le=1)


class _File(BaseModel):
    model_config = _NUMBERS

    format: int = Field(ge=FORMAT, le=FORMAT)
    layers: list[int] = Field(min_length=1, max_length=2)
    coefficients: list[Annotated[float, AfterValidator(_check_coefficient)]] = Field(min_length=2, max_length=100_000)
    threshold: float = Field(ge=0, le=1)
    aer: float = Field(ge=0, le=1)
    expected_calibration_error: float | None = Field(ge=0, le=1)
    reliability: list[_Bin] = Field(max_length=1000)
    pairs: int = Field(ge=1)
    chosen_on: str
    weights: list[str] = Field(max_length=2)


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Writes a calibration as JSON: `layers` and `coefficients` of the regression, `threshold`, and what was measured
    on pairs that the fit had not seen: `aer`, `reliability` and `expected_calibration_error`, all from 0 to 1 (the
    last is null where no two words are likely to be linked); the number of `pairs`, and the set that they are from
    (`chosen_on`); and the SHA-256 of the `weights`."""
    write_json(path, calibration_to_json(calibration))


def calibration_to_json(calibration: Calibration) -> dict[str, Any]:
    """Returns what `write_calibration` writes."""
    return {
        "format": FORMAT,
        "layers": list(calibration.probabilities.layers),
        "coefficients": list(calibration.probabilities.coefficients),
        "threshold": calibration.threshold,
        "aer": calibration.aer,
        "expected_calibration_error": None if math.isnan(calibration.error) else calibration.error,
        "reliability": [one._asdict() for one in calibration.reliability],
        "pairs": calibration.pairs,
        "chosen_on": calibration.chosen_on,
        "weights": list(calibration.weights),
    }


def read_calibration(path: Path) -> Calibration:
    """Reads a calibration.

    Raises:
        InputError: it is no such file, or a number is out of range.
    """
    try:
        found = _File.model_validate(read_json_object(path))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(
            _describe(path, f"{place}: {first['msg'].removeprefix('Value error, ')}, found {str(first['input'])[:60]}")
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(_describe(path, str(error))) from None
    return Calibration(
        LinkProbabilities(tuple(found.layers), tuple(found.coefficients)),
        found.threshold,
        found.aer,
        tuple(ReliabilityBin(**one.model_dump()) for one in found.reliability),
        found.pairs,
        found.chosen_on,
        tuple(found.weights),
    )


def _describe(path: Path, problem: str) -> str:
    return f"{path}: expected the link_calibration.json of an evaluation of this run; {problem}; evaluate again"
