"""JoeyNMT by its own trainer, with the recipe of its small Transformers for IWSLT.

Its trainer is as it is, but for a look at the clock before each batch, and autocast to bfloat16, which its config
offers for graphics cards alone. It sorts no batches by length. Its schedule is the small recipe's, `noam`
with a warm-up that fits the time; over the second half of the time the factor of it falls to zero, as JoeyNMT 2.3.0
cannot itself (its `warmupexponentialdecay` fails at the start: it is made without its optimizer).

Layers are pre-norm on both sides. By default its encoder's are, without a norm at its end, and its decoder's are
post-norm: trained so for twelve minutes, it repeats one word.
"""

from pathlib import Path

import torch
from joeynmt import prediction, training
from joeynmt.config import parse_global_args
from joeynmt.tokenizers import SentencePieceTokenizer

from tests.benchmarks.racers.clock import Clock
from tests.benchmarks.racers.pieces import train_pieces

PACKAGES = ("joeynmt", "torch", "sentencepiece")
BEAM = 5
VOCABULARY = 5000
FACTOR = 0.5
BFLOAT16 = {"device_type": "cpu", "dtype": torch.bfloat16, "enabled": True}
LAYERS = {
    "type": "transformer",
    "num_layers": 3,
    "num_heads": 4,
    "embeddings": {"embedding_dim": 256, "scale": True, "dropout": 0.0},
    "hidden_size": 256,
    "ff_size": 512,
    "dropout": 0.2,
    "layer_norm": "pre",
}
TRAINING = {
    "optimizer": "adam",
    "adam_betas": [0.9, 0.98],
    "scheduling": "noam",
    "learning_rate_factor": FACTOR,
    "learning_rate_warmup": 500,
    "learning_rate_min": 0.0,
    "loss": "crossentropy",
    "label_smoothing": 0.1,
    "normalization": "tokens",
    "batch_size": 2048,
    "batch_type": "token",
    "epochs": 10_000,  # the clock ends training
    "validation_freq": 10_000_000,
    "logging_freq": 1000,
    "shuffle": True,
    "print_valid_sents": [],
}


class TimedTrainer(training.TrainManager):
    """The trainer, which looks at the clock before each batch."""

    clock: Clock
    last_tokens = 0

    def _train_step(self, batch):
        self.autocast = BFLOAT16
        if self.last_tokens and not self.clock.after_update(self.last_tokens, self._save):
            raise KeyboardInterrupt  # how the trainer is ended
        self.last_tokens = int(batch.ntokens)
        self.scheduler.factor = FACTOR * min(2 - 2 * self.clock.share(), 1)
        return super()._train_step(batch)

    def _save(self, path: Path) -> None:
        torch.save({"model_state": self.model.state_dict()}, path.with_suffix(".ckpt"))


class Pieces(SentencePieceTokenizer):
    """Pieces whose text may be empty, which is an error otherwise."""

    def post_process(self, sequence, **options):
        """Returns the text of pieces."""
        try:
            return super().post_process(sequence, **options)
        except AssertionError:
            return ""


def config(folder: Path, **testing) -> dict:
    """The config, without the paths of the text."""
    tokenizer = {"model_file": str(folder / "pieces.model")}
    language = {
        "level": "bpe",
        "tokenizer_type": "sentencepiece",
        "tokenizer_cfg": tokenizer,
        "voc_file": str(folder / "vocabulary.txt"),
    }
    return {
        "name": "race",
        "joeynmt_version": "2.3.0",
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "random_seed": 1,
        "data": {"dataset_type": "plain", "src": {"lang": "en", **language}, "trg": {"lang": "de", **language}},
        "testing": {"batch_size": 64, **testing},  # at most half as many tokens again as the source has, its default
        "training": TRAINING,
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "xavier_uniform",
            "bias_initializer": "zeros",
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": LAYERS,
            "decoder": LAYERS,
        },
    }


def train(clock: Clock, text: Path) -> int:
    """Trains until the time is over."""
    folder = clock.folder
    pieces = train_pieces(text, folder / "pieces.model", VOCABULARY)
    vocabulary = [pieces.id_to_piece(i) for i in range(4, len(pieces))]
    (folder / "vocabulary.txt").write_text("".join(f"{piece}\n" for piece in vocabulary), encoding="utf-8")
    (folder / "model").mkdir(exist_ok=True)
    settings = config(folder)
    settings["data"] |= {"train": str(text / "train"), "dev": str(text / "val")}
    args = parse_global_args(settings, rank=0, mode="train")
    model, train_data, dev_data, _ = prediction.prepare(args, rank=0, mode="train")
    trainer = TimedTrainer(
        rank=0,
        model=model,
        model_dir=args.model_dir,
        device=args.device,
        autocast=args.autocast,
        seed=args.seed,
        train_args=args.train,
        dev_args=args.test,
    )
    trainer.clock = clock
    trainer.train_and_validate(train_data=train_data, valid_data=dev_data)
    return sum(parameter.numel() for parameter in model.parameters())


def translate(checkpoint: Path, sentences: list[str], beam: int) -> list[str]:
    """Translates by `predict`, in float32."""
    folder = checkpoint.parents[1]
    settings = config(folder, load_model=str(checkpoint.with_suffix(".ckpt")), beam_size=beam, beam_alpha=1.0)
    settings["data"]["test"] = "stream"
    args = parse_global_args(settings, rank=0, mode="translate")
    model, _, _, stream = prediction.prepare(args, rank=0, mode="translate")
    stream.tokenizer["de"].__class__ = Pieces
    for sentence in sentences:
        stream.set_item(sentence)
    return prediction.predict(
        model=model, data=stream, device=args.device, n_gpu=0, args=args.test, autocast=args.autocast
    )[2]
