"""The demo corpus: its grammar on sentences written by hand, and what must hold of the generated files."""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from data.demo import clauses, nouns, prepare
from data.demo.lexicon import ADJECTIVES, NOUNS, VERBS
from data.demo.measures import alignment_error_rate, link_by_diagonal, link_by_gold
from data.demo.nouns import NounPhrase
from data.demo.phrase import NOTHING, Phrase, SentencePair, aligned, realise
from data.demo.sampling import ECONOMIC_AREA, Sampler
from data.demo.sentences import random_pair

FOLDER = Path(prepare.__file__).parent
SPLITS = ("train", "validation", "test")


def np(words: str, plural: bool = False) -> NounPhrase:
    """A noun phrase from English words: determiner, adjectives, noun in the singular ("the small red apple")."""
    determiner, *adjectives, noun = words.split()
    return nouns.determined(determiner, NOUNS[noun.replace("_", " ")], plural, [ADJECTIVES[one] for one in adjectives])


nps = partial(np, plural=True)


def says(subject: NounPhrase, verb: str, complement: Phrase = NOTHING, **form: Any) -> Phrase:
    return clauses.statement(subject, clauses.predicate(subject, VERBS[verb], complement, **form))


def sees_it_and_eats_it(antecedent: NounPhrase) -> Phrase:
    girl = np("the girl")
    see = clauses.predicate(girl, VERBS["see"], antecedent.phrase)
    eat = clauses.predicate(girl, VERBS["eat"], pronoun=nouns.object_pronoun_for(antecedent))
    return clauses.statement(girl, see, clauses.linked("and", eat))


def because_it_is_green(antecedent: NounPhrase) -> Phrase:
    it = nouns.pronoun_for(antecedent, is_person=False)
    state = clauses.statement(it, clauses.is_(it, clauses.quality(it, ADJECTIVES["green"])))
    return says(nouns.person("Jane"), "buy", antecedent.phrase) + clauses.joining("because") + state


def area() -> NounPhrase:
    return nouns.determined("the", ECONOMIC_AREA, False, [ADJECTIVES["european"], ADJECTIVES["economic"]])


def agreement_was_signed() -> Phrase:
    agreement = nouns.complemented(np("the agreement"), aligned("on", "sur"), area())
    date = aligned("in august 1992", "en août/1 1992/2")
    return clauses.statement(agreement, clauses.was_done(agreement, VERBS["sign"], date))


def does_the_girl_eat() -> Phrase:
    girl = np("the girl")
    return clauses.question(girl, clauses.predicate(girl, VERBS["eat"], np("the egg").phrase, in_question=True))


def is_(subject: NounPhrase, adjective: str, **options: Any) -> Phrase:
    return clauses.statement(subject, clauses.is_(subject, clauses.quality(subject, ADJECTIVES[adjective]), **options))


def woman_who_sleeps() -> Phrase:
    woman = np("the woman")
    return is_(clauses.who(woman, clauses.predicate(woman, VERBS["sleep"])), "happy")


def apple_that_anne_eats() -> Phrase:
    anne = nouns.person("Anne")
    return is_(clauses.that(np("the apple"), anne, clauses.predicate(anne, VERBS["eat"])), "good")


def is_thirsty() -> Phrase:
    we = nouns.subject_pronoun("we")
    return clauses.statement(we, clauses.is_(we, aligned("thirsty", "soif"), negated=True, french=clauses.AVOIR))


def does_not_want_to_look_for_him() -> Phrase:
    paul, him = nouns.person("Paul"), nouns.object_pronoun("him")
    verb = clauses.predicate(paul, VERBS["look for"], tense="want", modifier="not", pronoun=him)
    return clauses.statement(paul, verb)


def gives(receiver_first: bool) -> Phrase:
    complement = clauses.given_to(np("a apple"), np("the boy"), receiver_first)
    return says(nouns.person("Jane"), "give", complement)


JANE = nouns.person("Jane")
CASES = {
    "an adjective before and one after the noun": (
        says(np("the boy"), "find", np("the small red hat").phrase),
        "the boy finds the small red hat",
        "le garçon trouve le petit chapeau rouge",
        "0-0 1-1 2-2 3-3 4-4 5-6 6-5",
    ),
    "agreement in gender and number, before and after the noun": (
        says(nps("the girl"), "wash", nps("the old white car").phrase),
        "the girls wash the old white cars",
        "les filles lavent les vieilles voitures blanches",
        "0-0 1-1 2-2 3-3 4-4 5-6 6-5",
    ),
    "beau becomes bel before a vowel, and an follows a": (
        says(np("a old horse"), "see", np("a beautiful bird").phrase),
        "an old horse sees a beautiful bird",
        "un vieux cheval voit un bel oiseau",
        "0-0 1-1 2-2 3-3 4-4 5-5 6-6",
    ),
    "elision before a vowel and a mute h, none before an aspirated h": (
        says(np("the owl"), "see", np("the hotel").phrase),
        "the owl sees the hotel",
        "le hibou voit l' hôtel",
        "0-0 1-1 2-2 3-3 4-4",
    ),
    "a feminine possessive turns masculine before a vowel": (
        says(nouns.subject_pronoun("I"), "like", np("my school").phrase),
        "I like my school",
        "j' aime mon école",
        "0-0 1-1 2-2 3-3",
    ),
    "negation around the verb": (
        says(np("the girl"), "like", np("the juice").phrase, modifier="not"),
        "the girl does not like the juice",
        "la fille n' aime pas le jus",
        "0-0 1-1 2?3 3-2 3-4 4-3 5-5 6-6",
    ),
    "never, and any": (
        says(JANE, "eat", nps("any orange").phrase, modifier="never"),
        "Jane never eats any oranges",
        "Jane ne mange jamais d' oranges",
        "0-0 1-1 1-3 2-2 3-4 4-5",
    ),
    "an adverb after the French verb": (
        says(JANE, "sing", modifier="often"),
        "Jane often sings",
        "Jane chante souvent",
        "0-0 1-2 2-1",
    ),
    "it is feminine where its antecedent is": (
        sees_it_and_eats_it(np("the apple")),
        "the girl sees the apple and eats it",
        "la fille voit la pomme et la mange",
        "0-0 1-1 2-2 3-3 4-4 5-5 6-7 7-6",
    ),
    "it is masculine where its antecedent is": (
        sees_it_and_eats_it(np("the cake")),
        "the girl sees the cake and eats it",
        "la fille voit le gâteau et le mange",
        "0-0 1-1 2-2 3-3 4-4 5-5 6-7 7-6",
    ),
    "it as a subject, its adjective agreeing": (
        because_it_is_green(np("the box")),
        "Jane buys the box because it is green",
        "Jane achète la boîte parce qu' elle est verte",
        "0-0 1-1 2-2 3-3 4-4 4-5 5-6 6-7 7-8",
    ),
    "a pronoun stands before the infinitive, for links to its English particle": (
        does_not_want_to_look_for_him(),
        "Paul does not want to look for him",
        "Paul ne veut pas le chercher",
        "0-0 1?2 2-1 2-3 3-2 4?5 5-5 6?5 7-4",
    ),
    "de + le = du; a possessor follows the thing": (
        says(np("the dog"), "find", nouns.owned(np("the boy"), NOUNS["hat"]).phrase),
        "the dog finds the boy 's hat",
        "le chien trouve le chapeau du garçon",
        "0-0 1-1 2-2 3?5 4-6 5?3 5-5 6-4",
    ),
    "à + le = au": (
        gives(receiver_first=False),
        "Jane gives an apple to the boy",
        "Jane donne une pomme au garçon",
        "0-0 1-1 2-2 3-3 4-4 5?4 6-5",
    ),
    "the receiver before the thing": (
        gives(receiver_first=True),
        "Jane gives the boy an apple",
        "Jane donne une pomme au garçon",
        "0-0 1-1 2-4 3-5 4-2 5-3",
    ),
    "à + les = aux, de + les = des": (
        says(nps("the queen"), "go", aligned("to", "à") + nps("the house").phrase)
        + nouns.in_place("near", nps("the church")),
        "the queens go to the houses near the churches",
        "les reines vont aux maisons près des églises",
        "0-0 1-1 2-2 3-3 4?3 5-4 6-5 6?6 7-6 8-7",
    ),
    "some water is de + la before a consonant, de l' before a vowel": (
        says(nouns.subject_pronoun("you"), "drink", np("some water").phrase),
        "you drink some water",
        "vous buvez de l' eau",
        "0-0 1-1 2-2 2-3 3-4",
    ),
    "de for des before an adjective": (
        says(JANE, "see", nps("some new tree").phrase),
        "Jane sees some new trees",
        "Jane voit de nouveaux arbres",
        "0-0 1-1 2-2 3-3 4-4",
    ),
    "one English word for three French ones, two for three, two for one": (
        says(nouns.person("Hugo"), "eat", nps("two potato").phrase)
        + nouns.in_place("in", np("the train_station"))
        + aligned("and", "et")
        + np("the washing_machine").phrase,
        "Hugo eats two potatoes in the train station and the washing machine",
        "Hugo mange deux pommes de terre dans la gare et la machine à laver",
        "0-0 1-1 2-2 3-3 3?4 3-5 4-6 5-7 6?8 7-8 8-9 9-10 10?12 10-13 11-11",
    ),
    "apple juice is turned round": (
        clauses.there_is(np("some apple_juice")),
        "there is some apple juice",
        "il y a du jus de pomme",
        "0?0 0-1 1-2 2-3 3?5 3-6 4-4",
    ),
    "the fixed term, in a passive": (
        agreement_was_signed(),
        "the agreement on the european economic area was signed in august 1992",
        "l' accord sur la zone économique européenne a été signé en août 1992",
        "0-0 1-1 2-2 3-3 4-6 5-5 6-4 7?7 7-8 8-9 9-10 10-11 11-12",
    ),
    "countries have an article, which English has no word for": (
        says(JANE, "visit", nouns.land("Africa").phrase),
        "Jane visits Africa",
        "Jane visite l' Afrique",
        "0-0 1-1 2?2 2-3",
    ),
    "in and to a country": (
        says(JANE, "live", nouns.in_land("France")) + aligned("and", "et") + nouns.in_land("Japan", "to"),
        "Jane lives in France and to Japan",
        "Jane habite en France et au Japon",
        "0-0 1-1 2-2 3-3 4-4 5-5 6?5 6-6",
    ),
    "a question with a helper verb": (
        does_the_girl_eat(),
        "does the girl eat the egg",
        "est-ce que la fille mange l' œuf",
        "0?0 0?1 0?4 1-2 2-3 3-4 4-5 5-6",
    ),
    "a relative clause about its subject": (
        woman_who_sleeps(),
        "the woman who sleeps is happy",
        "la femme qui dort est heureuse",
        "0-0 1-1 2-2 3-3 4-4 5-5",
    ),
    "a relative clause about its object": (
        apple_that_anne_eats(),
        "the apple that Anne eats is good",
        "la pomme qu' Anne mange est bonne",
        "0-0 1-1 2-2 3-3 4-4 5-5 6-6",
    ),
    "a negated adjective": (
        is_(nps("the story"), "interesting", negated=True),
        "the stories are not interesting",
        "les histoires ne sont pas intéressantes",
        "0-0 1-1 2-3 3-2 3-4 4-5",
    ),
    "is thirsty is has thirst": (
        is_thirsty(),
        "we are not thirsty",
        "nous n' avons pas soif",
        "0-0 1-2 2-1 2-3 3-4",
    ),
    "the past, and its negation with did": (
        says(nouns.subject_pronoun("I"), "find", np("this hat").phrase, tense="past", modifier="not"),
        "I did not find this hat",
        "je n' ai pas trouvé ce chapeau",
        "0-0 1?2 2-1 2-3 3-4 4-5 5-6",
    ),
    "the near future, with a time in front": (
        clauses.timed(
            says(np("the child"), "play", tense="future"), aligned("next week", "la/0? semaine/1 prochaine"), first=True
        ),
        "next week , the child is going to play",
        "la semaine prochaine , l' enfant va jouer",
        "0?0 0-2 1-1 2-3 3-4 4-5 5?6 6-6 7?7 8-7",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("phrase", "english", "french", "links"), CASES.values(), ids=CASES.keys())
def test_grammar_yields_both_sentences_and_their_links(phrase: Phrase, english: str, french: str, links: str) -> None:
    pair = realise(phrase)
    assert (" ".join(pair.source), " ".join(pair.target), pair.alignment) == (english, french, links)


def test_final_punctuation_is_linked_to_final_punctuation() -> None:
    pair = realise(clauses.sentence(does_the_girl_eat(), "?"))
    assert (pair.source[-1], pair.target[-1]) == ("?", "?")
    assert (len(pair.source) - 1, len(pair.target) - 1) in pair.sure


def test_no_english_form_is_listed_with_two_meanings() -> None:
    noun_forms = [form for noun in NOUNS.values() for form in (noun.english, noun.english_plural) if form]
    verb_forms = [form for verb in VERBS.values() for form in (verb.english, verb.past) if form and not verb.particle]
    for forms in (noun_forms, verb_forms):
        assert max(Counter(forms).values()) == 1


def test_verbs_whose_past_looks_like_their_present_have_no_past() -> None:
    with pytest.raises(AssertionError, match="past of read"):
        says(JANE, "read", tense="past")


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[SentencePair]]:
    return prepare.generate_splits()


@pytest.fixture(scope="module")
def all_pairs(corpus: dict[str, list[SentencePair]]) -> list[SentencePair]:
    return [pair for split in SPLITS for pair in corpus[split]]


@pytest.mark.minutes
def test_generating_again_gives_the_committed_bytes(corpus: dict[str, list[SentencePair]]) -> None:
    for name, text in prepare.format_files(corpus, prepare.draw_pronouns(prepare.SEED + 1, corpus)).items():
        assert (FOLDER / name).read_bytes() == text.encode(), f"{name}: run python data/demo/prepare.py"


def test_another_seed_gives_another_corpus() -> None:
    first, again, other = (prepare.draw_distinct_pairs(seed, 20) for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.minutes
def test_no_sentence_of_either_language_occurs_twice_whatever_its_last_mark(all_pairs: list[SentencePair]) -> None:
    for side in ("source", "target"):
        assert max(Counter(getattr(pair, side)[:-1] for pair in all_pairs).values()) == 1


@pytest.mark.minutes
def test_last_marks_are_translated_and_two_of_three_statements_end_in_a_full_stop(
    all_pairs: list[SentencePair],
) -> None:
    assert all(pair.source[-1] == pair.target[-1] for pair in all_pairs)
    marks = Counter(pair.source[-1] for pair in all_pairs)
    assert marks.keys() == {".", "!", "?"}
    assert marks["."] / (marks["."] + marks["!"]) == pytest.approx(2 / 3, abs=0.02)


@pytest.mark.minutes
def test_splits_have_the_documented_sizes(corpus: dict[str, list[SentencePair]]) -> None:
    assert {split: len(pairs) for split, pairs in corpus.items()} == prepare.SIZES
    assert sum(path.stat().st_size for path in FOLDER.iterdir() if path.is_file()) < 4e6


@pytest.mark.minutes
def test_links_are_in_range_and_every_word_has_one(all_pairs: list[SentencePair]) -> None:
    for pair in all_pairs:
        links = pair.sure | pair.possible
        assert not pair.sure & pair.possible
        assert {j for _, j in links} == set(range(len(pair.target)))
        assert {i for i, _ in links} == set(range(len(pair.source)))


@pytest.mark.minutes
def test_alignment_lines_read_back_as_the_links(corpus: dict[str, list[SentencePair]]) -> None:
    lines = (FOLDER / "test.align").read_text(encoding="utf-8").splitlines()
    for line, pair in zip(lines, corpus["test"], strict=True):
        sure = {tuple(map(int, link.split("-"))) for link in line.split() if "-" in link}
        possible = {tuple(map(int, link.split("?"))) for link in line.split() if "?" in link}
        assert (sure, possible) == (pair.sure, pair.possible)


def test_french_and_links_are_a_function_of_english() -> None:
    """Drawn without dropping repetitions, so that short sentences come up again and again."""
    draw = Sampler(7)
    known: dict[tuple[str, ...], SentencePair] = {}
    repeated = 0
    for pair in (random_pair(draw) for _ in range(8000)):
        repeated += pair.source in known
        assert known.setdefault(pair.source, pair) == pair
    assert repeated > 50


@pytest.mark.minutes
def test_every_word_occurs_often_in_training(corpus: dict[str, list[SentencePair]]) -> None:
    for side in ("source", "target"):
        times = Counter(word for pair in corpus["train"] for word in getattr(pair, side))
        assert min(times.values()) >= 50
        for split in ("validation", "test"):
            assert {word for pair in corpus[split] for word in getattr(pair, side)} <= times.keys()


@pytest.mark.minutes
def test_fixed_term_occurs_in_every_split(corpus: dict[str, list[SentencePair]]) -> None:
    for split, pairs in corpus.items():
        having = [pair for pair in pairs if "european economic area" in " ".join(pair.source)]
        assert len(having) > 0.03 * len(pairs), split
        assert all("zone économique européenne" in " ".join(pair.target) for pair in having)


@pytest.mark.minutes
def test_attention_can_reach_the_gold_links_and_the_diagonal_cannot(corpus: dict[str, list[SentencePair]]) -> None:
    assert alignment_error_rate(corpus["test"], link_by_gold) == pytest.approx(0.0)
    assert alignment_error_rate(corpus["test"], link_by_diagonal) > 0.25


def test_alignment_error_rate_of_a_case_worked_by_hand() -> None:
    """Three answers, two of them sure and one only possible, of four sure links: 1 - (2 + 3) / (3 + 4)."""
    gold = SentencePair(("a",) * 4, ("b",) * 4, frozenset({(0, 0), (1, 1), (2, 2), (3, 3)}), frozenset({(0, 2)}))
    rate = alignment_error_rate([gold], lambda _: {(0, 0), (1, 1), (0, 2)})
    assert rate == pytest.approx(1 - 5 / 7)
