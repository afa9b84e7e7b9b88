"""Text that a config gives to the model."""

from qkv.config.corpus import ListedCorpusSettings
from qkv.config.decoding import DecodingSettings
from qkv.config.inspection import Probe


def test_text_of_a_config_is_composed_as_all_text_is_and_paths_are_not():
    probe = Probe(source="e\u0301", reference="a\u0300")
    assert (probe.source, probe.reference, Probe(source="a").reference) == ("é", "à", None)
    assert DecodingSettings(tag="<e\u0301>").tag == "<é>"
    corpus = ListedCorpusSettings(source="e\u0301.en", target="b", tag="<e\u0301>")
    assert (corpus.tag, str(corpus.source)) == ("<é>", "e\u0301.en")
