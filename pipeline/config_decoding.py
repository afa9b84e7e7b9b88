"""The settings of decoding as options of the commands that translate: for once other than the run's own."""

import argparse

from pipeline.config import DecodingSettings, RunConfig
from pipeline.config_messages import expectation, parse_value, validate


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
    given = {
        name: parse_value(f"decoding.{name}", field, text)
        for name, field in DecodingSettings.model_fields.items()
        if (text := getattr(options, name)) is not None
    }
    values = config.model_dump()
    values["decoding"].update(given)
    return validate(RunConfig, values, {f"decoding.{name}": "command line" for name in given})
