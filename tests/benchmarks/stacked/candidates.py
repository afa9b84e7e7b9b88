"""The candidates: settings that may differ between the models of a stack."""

from typing import NamedTuple


class Candidate(NamedTuple):
    """The settings of one model; by default those of `configs/multi30k_en_de_best.yaml`.

    The loss is `(CE(1) + second_pass CE(2) + forward KL(1, 2) + backward KL(2, 1)) / (1 + second_pass)` for two passes
    over a batch. R-Drop's weight w is `second_pass = 1, forward = backward = w / 2` (Liang et al. 2021, equation 4);
    SimCut is `second_pass = 0, forward = w, backward = 0, second_cut = 0.05` (Gao et al. 2022, equation 4).

    - seed: of the first weights and of dropout.
    - dropout: on the embeddings and on the output of each sublayer.
    - learning_rate: the peak.
    - weight_decay: of matrices but for token embeddings, as in `qkv.training.optimizers`.
    - embedding_decay: the same of token embeddings.
    - label_smoothing: as in `qkv.training.loss`.
    - second_pass, forward, backward: see above.
    - first_cut, second_cut: share of the tokens whose embeddings are zero in either pass.
    - reverse: whether the target is translated to the source.
    """

    seed: int = 1
    dropout: float = 0.2
    learning_rate: float = 0.003
    weight_decay: float = 0.3
    embedding_decay: float = 0.0
    label_smoothing: float = 0.1
    second_pass: float = 1.0
    forward: float = 1.5
    backward: float = 1.5
    first_cut: float = 0.0
    second_cut: float = 0.0
    reverse: bool = False


def _seeds(count: int, **settings) -> list[Candidate]:
    return [Candidate(seed=seed, **settings) for seed in range(1, count + 1)]


SIMCUT = {"second_pass": 0.0, "forward": 3.0, "backward": 0.0, "second_cut": 0.05}
FAMILIES = {
    "best preset": _seeds(3),
    "no decay": _seeds(2, weight_decay=0.0),
    "decay 0.6": _seeds(2, weight_decay=0.6),
    "dropout 0.25": _seeds(2, dropout=0.25),
    "dropout 0.3": _seeds(2, dropout=0.3),
    "SimCut": _seeds(2, **SIMCUT),
    "R-Drop, cut second pass": _seeds(2, second_cut=0.05),
    "R-Drop 5": _seeds(1, forward=2.5, backward=2.5),
    "R-Drop, cut both passes": _seeds(1, first_cut=0.05, second_cut=0.05),
    "learning rate 0.005": _seeds(1, learning_rate=0.005),
    "no label smoothing": _seeds(1, label_smoothing=0.0),
    "decayed embeddings": _seeds(1, embedding_decay=0.3),
    "German to English": _seeds(2, reverse=True),
    "German to English, no decay": _seeds(2, reverse=True, weight_decay=0.0),
}
CANDIDATES = {f"{family} {model.seed}": model for family, models in FAMILIES.items() for model in models}
"""The models of the stack by name."""
KEPT = (
    *(f"best preset {seed}" for seed in (1, 2, 3)),
    "decayed embeddings 1",
    *(f"German to English {seed}" for seed in (1, 2)),
    "German to English, no decay 1",
)
"""Those whose weights are written."""
