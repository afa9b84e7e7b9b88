"""A section of settings: its keys are described, its defaults are valid, and nothing changes after loading."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import qkv.config
from qkv.config import RunConfig, load_run_config
from qkv.config.attention import AttentionSettings, FullAttentionSettings
from qkv.config.corpus import CorpusSettings, LinkedTextSettings, ListedCorpusSettings, SetSettings
from qkv.config.data import DataSettings
from qkv.config.inspection import Probe
from qkv.config.model import BlocksSettings
from qkv.config.schema import Settings, sections_of, walk
from qkv.config.training import CallbackSettings, TrainingSettings

NO_VERBS = {"whether", "what", "which", "how", "when", "where", "the", "a", "number", "size", "folder", "file"}
PARTS = (AttentionSettings, FullAttentionSettings, BlocksSettings)  # of sections
SECTIONS = {
    kind
    for found in pkgutil.iter_modules(qkv.config.__path__)
    for kind in vars(importlib.import_module(f"qkv.config.{found.name}")).values()
    if isinstance(kind, type) and issubclass(kind, Settings) and kind not in PARTS
}


class TestSchema:
    @pytest.mark.parametrize(
        "section", sorted(SECTIONS, key=lambda kind: kind.__name__), ids=lambda section: section.__name__
    )
    def test_every_key_has_a_description(self, section: type[Settings]):
        unexplained = [name for name, field in section.model_fields.items() if not field.description]
        assert unexplained == []

    def test_a_key_is_described_by_an_imperative_of_at_most_25_words_and_its_values(self):
        for key, field in walk(RunConfig):
            if not sections_of(field):
                text = " ".join(field.description.split())
                sentence, *values = re.split(r"(?<!al)\. ", text.removesuffix("."))
                assert len(sentence.split()) <= 25, key
                assert re.sub(r"With \w+: ", "", sentence).split()[0].lower() not in NO_VERBS, key
                assert len(values) <= 1, key
                assert all(re.match(r"(null|none|nothing|auto|false|\d+): ", value) for value in values), key

    def test_settings_do_not_change_after_loading(self, config_file: Path):
        with pytest.raises(ValueError, match="frozen"):
            load_run_config(config_file).model.d_model = 1

    def test_every_default_is_a_valid_value(self):
        for section in SECTIONS:
            defaults = {name: field.default for name, field in section.model_fields.items() if not field.is_required()}
            if section not in (
                RunConfig,
                DataSettings,
                CorpusSettings,
                SetSettings,
                ListedCorpusSettings,
                LinkedTextSettings,
                Probe,
                CallbackSettings,
            ):
                extra = {"max_updates": 1} if section is TrainingSettings else {}
                section(**{**defaults, **extra})
