"""Two small languages of a few hundred to some thousand sentences each, for runs that learn them in less than a minute:
English into Spanish, whose adjectives follow their nouns, and English into Japanese, written without spaces, whose verb
is last."""

import random
from pathlib import Path

SPANISH_NOUNS = {
    "house": ("casa", "f"),
    "table": ("mesa", "f"),
    "door": ("puerta", "f"),
    "apple": ("manzana", "f"),
    "book": ("libro", "m"),
    "dog": ("perro", "m"),
    "cat": ("gato", "m"),
    "garden": ("jardín", "m"),
}
SPANISH_ADJECTIVES = {"red": "roj", "white": "blanc", "small": "pequeñ", "old": "viej", "new": "nuev", "black": "negr"}
SPANISH_VERBS = {"sees": "ve", "wants": "quiere", "paints": "pinta", "finds": "encuentra"}
SPANISH_NAMES = ("Ana", "Luis", "Carmen", "Pablo")

JAPANESE_NOUNS = {"cat": "猫", "dog": "犬", "child": "子供", "teacher": "先生", "bird": "鳥"}
JAPANESE_OBJECTS = {"fish": "魚", "bread": "パン", "water": "水", "books": "本", "letters": "手紙", "flowers": "花"}
JAPANESE_VERBS = {"eats": "食べる", "sees": "見る", "buys": "買う", "likes": "好む", "carries": "運ぶ"}
JAPANESE_ADJECTIVES = {"small": "小さい", "old": "古い", "red": "赤い", "new": "新しい"}


def spanish_pairs(count: int, seed: int = 1) -> list[tuple[str, str]]:
    """Different pairs such as "Ana sees the red house ." and "Ana ve la casa roja ."."""

    def draw(generator):
        english, (spanish, gender) = generator.choice([*SPANISH_NOUNS.items()])
        article, end = ("la", "a") if gender == "f" else ("el", "o")
        name, verb = generator.choice(SPANISH_NAMES), generator.choice([*SPANISH_VERBS])
        adjectives = generator.sample([*SPANISH_ADJECTIVES], generator.choice([1, 1, 2]))
        after = " y ".join(SPANISH_ADJECTIVES[word] + end for word in adjectives)
        return (
            f"{name} {verb} the {' and '.join(adjectives)} {english} .",
            f"{name} {SPANISH_VERBS[verb]} {article} {spanish} {after} .",
        )

    return _different(draw, count, seed)


def japanese_pairs(count: int, seed: int = 1) -> list[tuple[str, str]]:
    """Different pairs such as "the small cat eats fish ." and "小さい猫は魚を食べる。"."""

    def draw(generator):
        noun, verb = generator.choice([*JAPANESE_NOUNS]), generator.choice([*JAPANESE_VERBS])
        thing, adjective = generator.choice([*JAPANESE_OBJECTS]), generator.choice([*JAPANESE_ADJECTIVES, ""])
        other = generator.choice([*JAPANESE_ADJECTIVES, ""])
        english = " ".join(filter(None, ["the", adjective, noun, verb, other, thing, "."]))
        words = [JAPANESE_ADJECTIVES.get(adjective, ""), JAPANESE_NOUNS[noun], "は", JAPANESE_ADJECTIVES.get(other, "")]
        return english, "".join([*words, JAPANESE_OBJECTS[thing], "を", JAPANESE_VERBS[verb], "。"])

    return _different(draw, count, seed)


def _different(draw, count, seed):
    generator = random.Random(seed)
    pairs: dict[tuple[str, str], None] = {}
    while len(pairs) < count:
        pairs[draw(generator)] = None
    return list(pairs)


CONFIG = """\
data:
  source_language: en
  target_language: {language}
  train: {{source: train.en, target: train.{language}}}
  validation: {{source: validation.en, target: validation.{language}}}
  test: {{source: test.en, target: test.{language}}}
tokenizer: {{vocabulary_size: {vocabulary}}}
batches: {{batch_tokens: 1200, length_multiple: 4}}
model: {{d_model: 64, num_heads: 2, d_ff: 128, encoder_layers: 1, decoder_layers: 1, dropout: 0.0}}
training: {{max_updates: 180, schedule: linear, learning_rate: 0.006, warmup_updates: 40, validate_every_updates: 180}}
"""


def write_grammar(folder: Path, language: str, pairs: list[tuple[str, str]], vocabulary: int) -> Path:
    """Writes the text of a language and the config file of a run; returns the config file."""
    for name, rows in {"validation": pairs[:60], "test": pairs[60:120], "train": pairs[120:]}.items():
        for suffix, side in (("en", 0), (language, 1)):
            text = "".join(f"{pair[side]}\n" for pair in rows)
            (folder / f"{name}.{suffix}").write_text(text, encoding="utf-8")
    config = folder / f"{language}.yaml"
    config.write_text(CONFIG.format(language=language, vocabulary=vocabulary), encoding="utf-8")
    return config
