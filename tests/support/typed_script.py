"""A user's file with every public name, for type checkers: it is checked from outside the package, and never run."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import qkv
from qkv.attention import alibi_bias, causal_mask, from_keras, padding_mask, rotation
from qkv.attention.mechanisms import MECHANISM_CLASSES, Mechanism
from qkv.attention.scores import SCORE_CLASSES, Score
from qkv.config import RunConfig, load_run_config
from qkv.inspection import ArchiveWriter, AttentionArchive, Record, Sentence, write_archive
from qkv.inspection.archive_export import bertviz_arguments, write_inseq, write_soft_alignments
from qkv.inspection.measures import SiteWeights
from qkv.live import live
from qkv.metrics import MetricInputs
from qkv.plugins import (
    register_architecture,
    register_callback,
    register_measure,
    register_mechanism,
    register_metric,
    register_schedule,
    register_score,
)
from qkv.run import train as train_run
from qkv.text.corpora.word_links import GoldAlignment, read_pharaoh


def load(folder: Path) -> qkv.Run:
    version: str = qkv.__version__
    print(version)
    return qkv.load(folder, checkpoint="last")


def translate(run: qkv.Run, frame: pd.DataFrame) -> list[str]:
    single: qkv.Translated = run.translate("a")
    several: list[qkv.Translated] = run.translate(["a", "b"], beam_size=2)
    best: list[qkv.Translated] = run.translate("a", n_best=2)
    bests: list[list[qkv.Translated]] = run.translate(["a"], n_best=2)
    text: qkv.TranslatedText = run.translate("a", split=True)
    texts: list[qkv.TranslatedText] = run.translate(["a"], split=True)
    column: pd.Series[Any] = run.translate(frame["source"])
    array: list[qkv.Translated] = run.translate(np.array(["a"]))
    record: Record = single.attention
    table: pd.DataFrame = record.to_frame(layer=0, head=1)
    weights: np.ndarray = record.to_numpy()
    print(table.round(2), weights.shape, single.tokens, single.log_probabilities, single.truncated, single.score)
    record.plot(layer=0, head=1).set_title("one head")
    record.save("heads.png")
    print(qkv.heatmap([[0.5, 0.5]], ["row"], ["a", "b"]), column.astype("string"))
    return [one.text for one in [*several, *best, *bests[0], *text.sentences, *array]] + [t.text for t in texts]


def align(run: qkv.Run) -> float:
    links: dict[tuple[int, int], float] = run.align("a", "b")
    many: list[dict[tuple[int, int], float]] = run.align(["a"], ["b"], at="0,1,output")
    return sum(links.values()) + sum(many[0].values())


def evaluate(run: qkv.Run) -> pd.DataFrame:
    evaluation: qkv.Evaluation = run.evaluate("test", beam_size=1)
    own: qkv.Evaluation = run.evaluate(
        source="a.en", reference=Path("a.fr"), alignments="a.links", first_index=1, name="own"
    )
    scores: pd.DataFrame = own.scores
    bleu = float(evaluation.metrics["bleu"])
    archive: qkv.AttentionArchive = evaluation.archive
    first = archive[0]
    print(bleu, first.source_tokens, len(archive), [record.hypothesis for record in archive], own.path / "viewer.html")
    return scores


def keep(layer: Any, part: str, value: Any, **inputs: Any) -> Any:
    return value


def inside(run: qkv.Run) -> np.ndarray:
    (values,) = run.cache(["a"], ["*.scores"])
    patched = run.patch("a", ("a", "b"), ["logits"])
    parts = run.explain("a", "decoder.0.cross", head=0, row=1)
    table: pd.DataFrame = run.weights()
    run.show("a", target="b").save("a.html")
    print(table, run.explain_logit("a", row=0))
    with qkv.tapped(keep):
        run.model.generate([[5, 3]], search="beam")
    (source, target), predicted = run.read_ids("a")
    print(values.source_tokens, patched.log_probabilities, parts, source, target, predicted, run.float64_model)
    array: np.ndarray = values.arrays["decoder.0.cross.scores"]
    return array


def export(run: qkv.Run) -> Path:
    print(run.history["val_loss"], run.config.model, run.path, run.model, run.trained.tokenizer)
    return run.export("ctranslate2", "folder", quantization="int8")


def training(config: RunConfig) -> None:
    run: qkv.Run = qkv.train("my.yaml", {"model.d_model": 64, "training": {"max_updates": 2}}, verbose=0, callbacks=[])
    opus: qkv.Run = qkv.import_marian("opus", Path("runs/opus"), source_language="en")
    batches = qkv.batches(config, split="validation")
    (source, target), output = batches[0]
    print(run, opus, len(batches), source.shape, target.dtype, output.sum(), batches.text.tokenizer.vocabulary_size)
    batches.epoch = 2
    status: int = train_run(load_run_config(Path("my.yaml")))
    print(status)


def back_to_a_run(run: qkv.Run, frame: pd.DataFrame) -> qkv.Run:
    trained: qkv.Run = qkv.train({"data": {"source_language": "en", "target_language": "fr"}}, pairs=frame)
    evaluation: qkv.Evaluation = trained.evaluate(source=["a"], reference=["b"])
    print(evaluation, run.with_model(run.model).save("runs/saved"))
    return qkv.Run.from_model(run.model, run, "my.yaml")


def layers() -> None:
    x = np.ones((1, 3, 8), "float32")
    cross = qkv.CrossAttention(num_heads=2, key_dim=4)
    self_attention = qkv.SelfAttention(num_heads=2, key_dim=4, positions="rotary", return_weights=False)
    general = qkv.MultiHeadAttention(num_heads=2, key_dim=4)
    additive = qkv.AdditiveAttention(units=4)
    print(cross(x, x), self_attention(x), general(x, x), additive(x, x))
    print(from_keras, padding_mask, causal_mask, alibi_bias, rotation)
    models = [
        qkv.Transformer(100, d_model=32, encoder_layers=1, decoder_layers=1, num_heads=2, d_ff=64, dropout=0.1),
        qkv.DecoderOnly(100, d_model=32),
        qkv.Recurrent(100, d_model=32),
    ]
    loss = qkv.losses.TokenCrossEntropy(label_smoothing=0.1)
    models[0].compile("adam", loss, metrics=[qkv.metrics.TokenAccuracy(), qkv.metrics.Perplexity()])
    models[0].export("model.onnx", format="onnx", verbose=False)
    loaded = qkv.load_model("model.keras")
    print(loaded, MECHANISM_CLASSES, SCORE_CLASSES)


def archives(folder: Path) -> None:
    archive = qkv.AttentionArchive(folder)
    records: list[Record] = list(archive)
    written: qkv.AttentionArchive = write_archive("mine", [Sentence(["a"], ["b"])], [np.ones((1, 1, 1, 1), "float32")])
    write_inseq(Path("a.json"), records)
    gold: list[GoldAlignment] = read_pharaoh("links")
    print(written, gold, AttentionArchive, ArchiveWriter)
    print(bertviz_arguments(records[0], np.asarray), write_soft_alignments)
    page = live("runs/demo")
    print(page.address)


@register_score("negative_distance", meaning="-|q - k|^2")
class NegativeDistance(Score):
    pass


@register_mechanism("mine")
class Mine(Mechanism):
    pass


@register_architecture("wider")
class Wider(qkv.Transformer):
    def make_encoder_block(self, index: int, *args: Any, **kwargs: Any) -> qkv.EncoderBlock:
        return qkv.EncoderBlock(*args, **kwargs)


@register_schedule("constant", ends_at_zero=False)
def constant(step: Any, warmup: int, last: int | None) -> float:
    return 1.0


@register_metric("length", digits=1)
def length(inputs: MetricInputs) -> float:
    return float(len(inputs.translations))


@register_measure("largest")
def largest(site: SiteWeights) -> np.ndarray:
    return np.ones((1, 1))


@register_callback("stop")
def stop() -> Any:
    return None


try:
    print(translate(load(Path("runs/demo")), pd.DataFrame()))
except qkv.InputError as error:
    print(error)
