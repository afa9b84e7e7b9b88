"""The settings of decoding as options of the commands that translate: for once other than the run's own."""

import argparse

import yaml  # type: ignore[import-untyped]

from pipeline.config import DecodingSettings, RunConfig
from pipeline.config_messages import expectation, validate
from pipeline.config_yaml import parse_yaml
from pipeline.errors import InputError


def add_decoding_options(parser: argparse.ArgumentParser) -> None:
    """An option for every setting of decoding."""
    group = parser.add_argument_group("how translations are found, where not as the run's config says")
    for name, field in DecodingSettings.model_fields.items():
        text = f"{field.description} ({expectation(field)})".replace("%", "%%")
        group.add_argument(f"--{name}", metavar="VALUE", help=text)


def with_decoding_options(config: RunConfig, options: argparse.Namespace) -> RunConfig:
    """The config with those settings that options replace.

    Raises:
        InputError: a value is wrong, or does not go with the others.
    """
    given = {name: _value(name, getattr(options, name)) for name in DecodingSettings.model_fields}
    given = {name: value for name, value in given.items() if value is not None}
    values = config.model_dump()
    values["decoding"].update(given)
    return validate(RunConfig, values, {f"decoding.{name}": "command line" for name in given})


def _value(name: str, text: str | None) -> object:
    if text is None:
        return None
    try:
        return parse_yaml(text)
    except (yaml.YAMLError, ValueError) as error:
        expected = expectation(DecodingSettings.model_fields[name])
        raise InputError(f"decoding.{name}: expected {expected}, found {text!r} (command line)") from error
