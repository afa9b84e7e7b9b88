"""Texts with markup, translated by a real run: tags are on their words, and nothing is lost."""

import random
from collections import Counter

import pytest

import qkv
from qkv.config.run import with_decoding_values
from qkv.errors import InputError
from qkv.evaluation.confidence import with_hypotheses
from qkv.files.run_directory import PACKAGED
from qkv.markup import placeholders, translation
from qkv.markup.html_text import read_pieces
from qkv.markup.translation import read_marked_lines, translate_marked, translate_window

PAGE = (
    '<!doctype html>\n<html lang="en-US"><head><title>The cat</title><script>x<b</script></head>\n<body class=x><p>\n'
    " The cat sleeps. <b>The dog eats the apple. The</b> girl sleeps.</p><ul><li>12<li> the cat </ul>"
    "<table><td>the <b>small apple</b></table><pre>the dog</pre><!-- c --></body>\n"
)


@pytest.fixture(scope="module")
def demo():
    return qkv.load(PACKAGED)


def test_tags_stay_on_the_words_that_they_mark(demo):
    line = 'The <b>black</b> cat eats <a href="apple.html">the <i>apple</i></a>.'
    best = demo.translate(line, markup="html")
    assert best.text == 'Le chat <b>noir</b> mange <a href="apple.html">la <i>pomme</i></a>.'
    assert best.source == "the black cat eats the apple ." and best.tokens[-1] == "</s>"
    plain = demo.translate("The black cat eats the apple.")
    assert best.log_probabilities == pytest.approx(plain.log_probabilities, abs=1e-5)
    assert best.attention.attention["cross"].shape == plain.attention.attention["cross"].shape


def test_what_the_model_cannot_copy_is_there_once(demo):
    lines = ["the cat eats {0} and %s .", "<b>12</b>", "the cat <br> sleeps <code>a &lt; b</code> .", ""]
    assert translate_marked(demo.trained, lines[:1], "placeholders") == ["le chat mange {0} et %s."]
    assert translate_marked(demo.trained, lines[1:2], "html") == ["<b>12</b>"]
    third, nothing = translate_marked(demo.trained, lines[2:], "html")
    assert third.count("<br>") == third.count("<code>a &lt; b</code>") == 1 and nothing == ""


def test_a_placeholder_is_read_as_a_name_that_the_model_copies(demo, monkeypatch):
    source = demo.translate("{0} sees the dog .", markup="placeholders").source
    assert source.split()[0] in {*translation.STAND_INS[0], *translation.STAND_INS[1]}
    monkeypatch.setattr(translation, "STAND_INS", ())
    without = demo.translate("{0} sees the dog .", markup="placeholders")
    assert without.source == "sees the dog ." and str(without).count("{0}") == 1


def test_each_of_the_best_translations_has_the_tags(demo):
    n_best = demo.translate("the <b>small</b> cat sleeps {0}", n_best=3, markup="html", beam_size=4)
    assert len({best.text for best in n_best}) == 3
    assert all(best.text.count("<b>") == best.text.count("</b>") == 1 for best in n_best)


def test_sentences_are_translated_one_by_one_and_a_tag_may_mark_several(demo):
    line = "the cat <i>sleeps. The dog</i> eats. The girl sleeps."
    split = demo.translate(line, markup="html", split=True)
    assert split.text == "le chat <i>dort. Le chien</i> mange. La fille dort."
    assert [best.source for best in split.sentences] == ["the cat sleeps .", "the dog eats .", "the girl sleeps ."]


def test_a_page_is_translated_and_the_rest_of_it_is_unchanged(demo):
    page = demo.translate(PAGE, markup="html-page")
    assert page.text == (
        '<!doctype html>\n<html lang="fr"><head><title>Le chat</title><script>x<b</script></head>\n<body class=x><p>\n'
        " Le chat dort. <b>Le chien mange la pomme. La</b> fille dort.</p><ul><li>12<li> le chat </ul>"
        "<table><td>la <b>petite pomme</b></table><pre>the dog</pre><!-- c --></body>\n"
    )
    assert [best.source for best in page.sentences][:2] == ["the cat", "the cat sleeps ."]
    assert translate_marked(demo.trained, ["<p>", PAGE, "<p>", PAGE], "html-page") == [
        "<p>",
        page.text,
        "<p>",
        page.text,
    ]


def test_a_translation_with_tags_is_as_sure_as_without(demo):
    marked = demo.translate("the <b>girl</b> eats an apple .", markup="html")
    assert marked.confidence == demo.translate("the girl eats an apple .").confidence > 0.9
    split = demo.translate("<p>the <b>girl</b> eats an apple .</p>", markup="html-page")
    assert [sentence.confidence for sentence in split.sentences] == [marked.confidence]


def test_hypotheses_without_markup_change_no_translation(demo):
    lines = ["The girl sees {0} and %s.", "{name} eats 7 apples.", "the %d cat sees the {0} ."]
    beam = demo.trained.with_config(with_decoding_values(demo.config, {"beam_size": 5}))
    run = with_hypotheses(beam)
    window = read_marked_lines(run, run.reader.typed_text("sentence"), "placeholders", lines, range(1, 4))
    found = translate_window(run, window, marked=1)
    assert found.texts == [[text] for text in translate_marked(beam, lines, "placeholders")]
    assert {len(n_best) for n_best in found.n_bests} == {5}
    assert translate_window(run, window).texts != found.texts


def test_an_ensemble_has_the_links_of_its_first_run(demo):
    from qkv.model.ensemble import Ensemble
    from qkv.run.ensemble import TrainedEnsemble

    run = demo.trained
    fields = {name: getattr(run, name) for name in ("directory", "config", "tokenizer", "weights")}
    ensemble = TrainedEnsemble(**fields, model=Ensemble([run.model] * 2), runs={"a": run, "b": run})
    lines = ["the <b>black</b> cat sleeps ."]
    assert translate_marked(ensemble, lines, "html") == translate_marked(run, lines, "html")


def test_wrong_calls_are_refused_by_name(demo):
    with pytest.raises(InputError, match="markup: expected one of html, placeholders, html-page, or None, found 'xml'"):
        demo.translate("a", markup="xml")
    with pytest.raises(InputError, match=r"n_best: .* leave out n_best or markup='html-page'"):
        demo.translate("a", markup="html-page", n_best=2)
    with pytest.raises(InputError, match="half a character"):
        demo.translate("the \ud800 cat", markup="html")


WORDS = [
    *("the", "black", "cat", "eats", "a", "small", "apple", "and", "girl", "does", "not", "like", "{0}", ",", "dog"),
    *("&amp;", "7", "éa", "שלום", "&lt;x&gt;", "<", ">"),
]
TAGS = [
    "<b>",
    "</b>",
    "<i class='a>b'>",
    "</i>",
    "<br>",
    "<img alt='x'>",
    "<!-- c -->",
    "<code>y z</code>",
    "<a>",
    "</p>",
]


def tags_in(line):
    return [piece.raw for piece in read_pieces(line) if piece.kind != "text"]


@pytest.mark.minutes
@pytest.mark.parametrize("markup", ["html", "placeholders"])
def test_hostile_lines_keep_their_markup_through_a_real_run(demo, markup):
    draw = random.Random(4)
    lines = []
    for _ in range(300):
        parts = draw.choices([*WORDS, *WORDS, *TAGS], k=draw.randint(1, 14))
        lines.append("".join(part + draw.choice(["", " ", " "]) for part in parts))
    results = translate_marked(demo.trained, lines, markup)
    find = placeholders._COPIED.findall if markup == "placeholders" else tags_in
    for line, result in zip(lines, results, strict=True):
        source, target = (Counter(find(text)) for text in (line, result))
        assert target == source, (line, result)
