"""What gold alignments have chosen for a run is kept in it, and chosen again when what it was chosen by changes."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest

from qkv.alignment import readout_selection
from qkv.alignment.gold import missing_choice_file, read_choice_set
from qkv.alignment.link_probabilities import ReliabilityBin
from qkv.alignment.readout import AlignmentReadout
from qkv.alignment.readout_selection import choose_readout
from qkv.errors import InputError
from qkv.files.paths import sha256
from qkv.files.run_directory import RunDirectory
from qkv.text.tokens.words import AT_SPACES
from tests.support.records import make_calibration
from tests.support.tiny_runs import small_config, write_small_corpus

CALIBRATION = replace(
    make_calibration((1,), (0.1, -1 / 3, 1e-17, 5.0)),
    threshold=0.35,
    aer=0.1 + 0.2,
    reliability=(ReliabilityBin(0.0, 0.1, 7, 1 / 7, 0.0), ReliabilityBin(0.9, 1.0, 3, 0.97, 1.0)),
    pairs=31,
    chosen_on="validation",
    weights=("0f" * 32,),
)
READOUTS = [
    AlignmentReadout(0, "mean", "input", "grow-diag", "norms", "validation"),
    AlignmentReadout(1, 3, "output", chosen_on="a/b.align", calibration=CALIBRATION, likely=True),
]


def make_stub_run(directory, config):
    """A run whose weights are the file in its folder."""
    return SimpleNamespace(
        directory=directory,
        weights=directory.model,
        weights_sha256=lambda: sha256(directory.model),
        is_changed=False,
        config=config,
        reader=SimpleNamespace(segmenter=AT_SPACES),
    )


class Choosing:
    """A run whose choice on gold alignments is made up, and counted."""

    def __init__(self, folder, monkeypatch):
        self.corpus = write_small_corpus(folder / "corpus")
        self.run = self.in_folder(folder / "run")
        self.run.directory.root.mkdir()
        self.run.weights.write_bytes(b"weights")
        self.choice, self.chosen = READOUTS[1], 0
        monkeypatch.setattr(readout_selection, "choose_on_gold", self._choose)
        monkeypatch.setattr(readout_selection, "_check_saved", lambda *_: None)

    def in_folder(self, root, **changes):
        changes = {key.replace("__", "."): value for key, value in changes.items()}
        config = small_config(self.corpus, root.parent, "run", changes)
        directory = RunDirectory(root)
        return make_stub_run(directory, config)

    def _choose(self, *_):
        self.chosen += 1
        return self.choice

    def __call__(self, run=None, **settings):
        run = run or self.run
        return choose_readout(run, read_choice_set(run.config, run.reader.segmenter), **settings)

    def lose_text(self):
        self.corpus.rename(self.corpus.with_name("elsewhere"))


@pytest.fixture
def choosing(tmp_path, monkeypatch):
    return Choosing(tmp_path, monkeypatch)


@pytest.mark.parametrize("readout", READOUTS)
def test_what_is_chosen_once_is_read_back_bit_for_bit_also_without_the_text(choosing, readout):
    choosing.choice = readout
    assert [choosing() for _ in range(3)] == [readout] * 3 and choosing.chosen == 1
    choosing.lose_text()
    assert choosing() == readout and choosing.chosen == 1
    assert str(choosing.run.directory.root) not in choosing.run.directory.alignment.read_text()


def change_weights(choosing):
    choosing.run.weights.write_bytes(b"others")


def change_sites(choosing):
    choosing.run = choosing.in_folder(choosing.run.directory.root, inspection__attention=["cross", "gradients"])


def change_words(choosing):
    choosing.run = choosing.in_folder(choosing.run.directory.root, data__words__target="characters")


def change_set(choosing):
    files = {"source": "test.en", "target": "test.fr", "alignments": "test.align"}
    files = {name: str(choosing.corpus / file) for name, file in files.items()}
    choosing.run = choosing.in_folder(choosing.run.directory.root, inspection__choose_head_on=files)


def change_gold(choosing):
    path = choosing.corpus / "validation.align"
    path.write_text("0-0\n" + "".join(path.read_text().splitlines(keepends=True)[1:]))


def change_text(choosing):
    path = choosing.corpus / "validation.fr"
    path.write_text(path.read_text(encoding="utf-8").replace(" .", " !"), encoding="utf-8")


CHANGES = [change_weights, change_sites, change_words, change_set, change_gold, change_text]


@pytest.mark.parametrize("change", CHANGES)
def test_it_is_chosen_again_if_what_it_was_chosen_by_has_changed(choosing, change):
    assert choosing() == READOUTS[1]
    choosing.choice = READOUTS[0]
    change(choosing)
    assert choosing() == choosing() == READOUTS[0] and choosing.chosen == 2


@pytest.mark.parametrize("change", CHANGES[:4])
def test_a_choice_by_other_weights_or_settings_is_not_read_where_the_text_is_missing(choosing, change, caplog):
    choosing()
    change(choosing)
    choosing.lose_text()
    assert choosing() is None
    assert f"{missing_choice_file(choosing.run.config)}: there is no such file" in caplog.text


def test_other_settings_change_nothing(choosing):
    choosing()
    assert choosing(choosing.in_folder(choosing.run.directory.root, decoding__beam_size=7)) == READOUTS[1]
    assert choosing.chosen == 1


def test_a_run_with_sets_of_its_own_keeps_its_choice_when_it_moves(choosing, tmp_path):
    """Its validation set lies in its folder, which has another path then."""
    run = choosing.run.directory

    def with_own_set(directory):
        files = {name: directory.held_out / f"validation.{name}" for name in ("source", "target", "alignments")}
        data = choosing.run.config.data
        data = data.model_copy(update={"validation": data.validation.model_copy(update=files)})
        config = choosing.run.config.model_copy(update={"data": data})
        return make_stub_run(directory, config)

    run.held_out.mkdir()
    for name, suffix in (("source", "en"), ("target", "fr"), ("alignments", "align")):
        shutil.copy(choosing.corpus / f"validation.{suffix}", run.held_out / f"validation.{name}")
    choosing(with_own_set(run))
    moved = run.root.rename(tmp_path / "moved")
    assert choosing(with_own_set(RunDirectory(moved))) == READOUTS[1] and choosing.chosen == 1


def test_weights_of_a_training_that_goes_on_and_of_an_ensembles_models_are_not_kept(choosing):
    run = choosing.run
    checkpoint = run.directory.checkpoints / "update-00000003.npz"
    checkpoint.parent.mkdir()
    checkpoint.write_bytes(b"weights")
    choosing(SimpleNamespace(**vars(run) | {"weights": checkpoint}))
    choosing(saves=False)
    assert not run.directory.alignment.exists() and choosing.chosen == 2


def test_the_choice_of_weights_that_were_changed_in_memory_is_not_kept(choosing):
    changed = SimpleNamespace(**vars(choosing.run) | {"is_changed": True, "weights_sha256": lambda: "ab" * 32})
    choosing(changed)
    assert not choosing.run.directory.alignment.exists()
    choosing()
    choosing(changed)
    assert choosing.chosen == 3


def test_a_run_that_cannot_be_written_is_read_all_the_same(choosing, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied", "alignment.json")

    monkeypatch.setattr(readout_selection, "write_json", refuse)
    assert choosing() == choosing() == READOUTS[1] and choosing.chosen == 2


def changed(*keys, value):
    def change(content):
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


DAMAGE = {
    "another format": (changed("format", value=2), "expected format 1, found 2"),
    "a layer below 0": (changed("readout", "layer", value=-1), "expected a layer and a head from 0"),
    "a layer that is no number": (changed("readout", "layer", value="1"), "readout.layer: Input should be a valid int"),
    "a truth value": (changed("readout", "layer", value=True), "readout.layer"),
    "a head of another name": (changed("readout", "head", value="all"), "expected a layer and a head from 0"),
    "another side": (changed("readout", "side", value="left"), "side: expected one of output, input, found 'left'"),
    "another way": (changed("readout", "extraction", value="all"), "extraction: expected one of target"),
    "another site": (changed("readout", "site", value="encoder"), "site: expected one of cross"),
    "no calibration": (changed("readout", "calibration", value=None), "expected a calibration of likely links"),
    "another layer": (changed("readout", "calibration", "layers", value=[0]), "expected a calibration of layer 1"),
    "a threshold above 1": (changed("readout", "calibration", "threshold", value=7.0), "from 0 to 1, found 7.0"),
    "no number": (changed("readout", "calibration", "coefficients", value=[None]), "readout.calibration.coefficients"),
    "no object": (changed("readout", value=[]), "readout"),
    "nothing": (lambda content: content.clear(), "KeyError: 'format'"),
    "no origin": (changed("chosen_by", value={}), "KeyError: 'weights'"),
    "an origin that is no object": (changed("chosen_by", value=7), "TypeError"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_file_is_told_with_what_to_do(choosing, case):
    choosing()
    path = choosing.run.directory.alignment
    content = json.loads(path.read_text())
    change, message = DAMAGE[case]
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"alignment\.json: expected .*, found ") as told:
        choosing()
    assert message in str(told.value) and str(told.value).count("\n") == 0
    assert "delete the file: it is written again if the gold alignments can be read" in str(told.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"format": NaN}', "\xff", '{"format": 1' + "[" * 10_000])
def test_what_is_no_json_is_told(choosing, text):
    choosing.run.directory.alignment.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"alignment\.json: expected .*; delete the file"):
        choosing()


def test_a_folder_in_its_place_is_told(choosing):
    choosing.run.directory.alignment.mkdir()
    with pytest.raises(InputError, match=r"alignment\.json: expected .* expected a file"):
        choosing()
