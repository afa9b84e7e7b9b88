"""eole, the successor of OpenNMT-py, by its own trainer, with its recipe for WMT 2017 English-German made small.

From the recipe: noam's schedule with AdamW, labels smoothed by 0.1, one table of embeddings, bfloat16, and its moving
average of the weights. Its trainer is as it is, but for a look at the clock before each update.
"""

import os
from contextlib import suppress
from pathlib import Path

import eole.train_single
from eole.config.run import PredictConfig, TrainConfig
from eole.inference_engine import InferenceEnginePY
from eole.trainer import Trainer
from eole.utils.logging import init_logger

from tests.benchmarks.racers.clock import Clock
from tests.benchmarks.racers.pieces import train_pieces

PACKAGES = ("eole", "torch", "sentencepiece")
BEAM = 5
VOCABULARY = 5000
TRAINING = {
    "batch_type": "tokens",
    "batch_size": 2048,
    "batch_size_multiple": 1,
    "normalization": "tokens",
    "bucket_size": 29_000,
    "num_workers": 0,
    "compute_dtype": "bf16",
    "use_amp": True,
    "optim": "adamw",
    "adam_beta2": 0.998,
    "decay_method": "noam",
    "learning_rate": 0.5,
    "warmup_steps": 500,
    "max_grad_norm": 0,
    "dropout": [0.2],
    "attention_dropout": [0.1],
    "label_smoothing": 0.1,
    "param_init_method": "xavier_uniform",
    "average_decay": 0.001,
    "save_checkpoint_steps": 0,  # the clock saves
    "train_steps": 10_000_000,
}
MODEL = {
    "architecture": "transformer",
    "hidden_size": 256,
    "layers": 3,
    "heads": 4,
    "transformer_ff": 512,
    "share_embeddings": True,
    "share_decoder_embeddings": True,
    "embeddings": {"word_vec_size": 256, "position_encoding_type": "SinusoidalInterleaved"},
}


class TimeIsOverError(Exception):
    """Ends the trainer's loop."""


class Timekeeper:
    """Stands before each of the trainer's steps.

    Args:
        clock: the racer's.

    Attributes:
        trainer: the trainer, once it has made a step.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.trainer: Trainer | None = None
        self.seen_tokens = 0

    def install(self) -> None:
        """Puts itself before the trainer's steps, in this process."""
        step = Trainer._train_step

        def timed_step(trainer, batches, normalization, total_stats, report_stats, **options):
            self.look(trainer, total_stats)
            step(trainer, batches, normalization, total_stats, report_stats, **options)

        Trainer._train_step = timed_step

    def look(self, trainer: Trainer, total_stats) -> None:
        """Tells the clock about the update before, if there was one.

        Raises:
            TimeIsOverError: the clock says so.
        """
        self.trainer = trainer
        tokens, self.seen_tokens = total_stats.n_tokens - self.seen_tokens, total_stats.n_tokens
        if tokens and not self.clock.after_update(tokens, self._save):
            raise TimeIsOverError

    def _save(self, path: Path) -> None:
        saver = self.trainer.model_saver
        saver.save(self.clock.updates, moving_average=self.trainer.moving_average)
        path.symlink_to(os.path.relpath(Path(saver.model_path) / saver.step_dir, path.parent))


def config(folder: Path, text: Path) -> TrainConfig:
    """The config of the training."""
    pieces, vocabulary = str(folder / "pieces.model"), str(folder / "vocabulary.txt")
    return TrainConfig(
        data={"train": {"path_src": str(text / "train.en"), "path_tgt": str(text / "train.de")}},
        src_vocab=vocabulary,
        tgt_vocab=vocabulary,
        share_vocab=True,
        transforms=["sentencepiece", "filtertoolong"],
        transforms_configs={
            "sentencepiece": {"src_subword_model": pieces, "tgt_subword_model": pieces},
            "filtertoolong": {"src_seq_length": 200, "tgt_seq_length": 200},
        },
        seed=1,
        report_every=1000,
        model=MODEL,
        training={**TRAINING, "model_path": str(folder / "model"), "world_size": 1, "gpu_ranks": []},
    )


def train(clock: Clock, text: Path) -> int:
    """Trains until the time is over."""
    pieces = train_pieces(text, clock.folder / "pieces.model", VOCABULARY)
    lines = [f"{pieces.id_to_piece(i)}\t1\n" for i in range(4, len(pieces))]
    (clock.folder / "vocabulary.txt").write_text("".join(lines), encoding="utf-8")
    timekeeper = Timekeeper(clock)
    timekeeper.install()
    with suppress(TimeIsOverError):
        eole.train_single.main(config(clock.folder, text), device_id=-1)
    return sum(parameter.numel() for parameter in timekeeper.trainer.model.parameters())


def translate(checkpoint: Path, sentences: list[str], beam: int) -> list[str]:
    """Translates by its engine, in float32, with its default length penalty."""
    init_logger()
    source, output = checkpoint.parents[1] / "source.txt", checkpoint.parents[1] / "output.txt"
    source.write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")
    settings = PredictConfig(
        model_path=[str(checkpoint.resolve())],
        src=str(source),
        output=str(output),
        beam_size=beam,
        max_length=100,
        batch_type="sents",
        batch_size=64,
        compute_dtype="fp32",
        world_size=1,
        gpu_ranks=[],
    )
    engine = InferenceEnginePY(settings)
    _, _, found = engine.infer_file()
    engine.terminate()
    return [best[0] for best in found]
