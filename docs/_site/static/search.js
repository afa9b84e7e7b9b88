"use strict";
/* Ranks the sections of the site by BM25F (Robertson and Zaragoza 2009): words of a heading count more than words of
   the text, rare words more than frequent ones, and long sections do not win by their length. Two words that stand
   side by side in the query and in a section count as one more word. */

const FIELDS = [
  { weight: 5, b: 0.5 }, // the heading
  { weight: 2, b: 0.5 }, // the headings above it, of which the first is the title of the page
  { weight: 1, b: 0.65 }, // the text
];
const SATURATION = 2;
const PAGE_SHARE = 0.5; // of the score of the whole page, added to the scores of its sections
const SMALL = 0.1; // the weight of words such as "the" and "how", and of numbers, in a query
const SIDE_BY_SIDE = 0.05; // the weight of two words that stand side by side
const OTHER_WORD = 0.8; // the weight of a synonym
const ASKED = 1.4; // the factor for a question with its answer, if the query is a sentence
const LONGEST_NAME = 3; // a longer query with small words is a sentence
const MOST_OF_A_PAGE = 3;
const MOST = 30;

const MORE_SMALL_WORDS = ["can", "get", "give", "like", "look", "make", "made", "need", "use", "want", "will"];

/* Words and phrases that mean the same to those who search. */
const SYNONYMS = [
  ["oom", "out of memory"],
  ["repetition", "repeat"],
  ["picture", "image", "plot", "figure", "visualize", "draw"],
  ["attention weights", "attention matrix", "attention map"],
  ["fine-tune", "train further", "train longer"],
  ["checkpoint", "resume", "continue"],
  ["interruption", "stopping"],
  ["guided", "supervision"],
  ["mixed precision", "half precision", "float16"],
];

const stemmer = new EnglishStemmer();
const stems = new Map();
const sections = [];
const pages = [];

function stem(word) {
  if (!stems.has(word)) stems.set(word, stemmer.stemWord(word.replace(/iz(e|es|ed|er|ing|ation)$/, "is$1")));
  return stems.get(word);
}

/* The stems of words without accents in small letters; a name such as `length_penalty` is its words. */
function stemsIn(text) {
  const plain = text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
  return (plain.match(/[\p{L}\p{N}]+/gu) || []).map(stem);
}

const small = new Set([...stopwords, ...MORE_SMALL_WORDS].flatMap(stemsIn));
const groups = SYNONYMS.map((group) => group.map(stemsIn));

/* How often a text has each stem, and each two that stand side by side. */
function countsOf(text) {
  const counts = new Map();
  const words = stemsIn(text);
  const add = (term) => counts.set(term, (counts.get(term) || 0) + 1);
  words.forEach((word, index) => {
    add(word);
    if (index > 0) add(`${words[index - 1]} ${word}`);
  });
  return { counts, size: words.filter((word) => !small.has(word)).length };
}

class Ranking {
  /* The scores of documents, each a list of texts, one for each field. */
  constructor(documents) {
    this.fields = documents.map((texts) => texts.map(countsOf));
    const total = (f) => this.fields.reduce((sum, fields) => sum + fields[f].size, 0);
    this.means = FIELDS.map((_, f) => total(f) / documents.length || 1);
    this.frequency = new Map();
    for (const fields of this.fields)
      for (const term of new Set(fields.flatMap(({ counts }) => [...counts.keys()])))
        this.frequency.set(term, (this.frequency.get(term) || 0) + 1);
  }

  rarity(term) {
    const frequency = this.frequency.get(term) || 0;
    return Math.log(1 + (this.fields.length - frequency + 0.5) / (frequency + 0.5));
  }

  scoreTerm(index, term) {
    let count = 0;
    this.fields[index].forEach(({ counts, size }, f) => {
      const { weight, b } = FIELDS[f];
      count += (weight * (counts.get(term) || 0)) / (1 - b + (b * size) / this.means[f]);
    });
    return count && (this.rarity(term) * count) / (SATURATION + count);
  }

  /* The score for the parts of a query. Of the forms of a part, such as synonyms, the best one counts. */
  score(index, parts) {
    const scoreForm = (form) => form.reduce((sum, { term, weight }) => sum + weight * this.scoreTerm(index, term), 0);
    return parts.reduce((sum, forms) => sum + Math.max(...forms.map(scoreForm)), 0);
  }
}

let sectionRanking, pageRanking;

/* A heading without its number: "3. Train". */
function unnumbered(heading) {
  return heading.replace(/^\d+\.\s/, "");
}

/* A text without the first word of commands such as "python train.py", which are not about Python. */
function withoutInterpreter(text) {
  return text.replace(/\bpython (?=-m |[\w/]+\.py\b)/g, "");
}

/* Called by search_index.js with the pages, whose sections are `[anchor, headings, text]`. */
function searchIn(index) {
  for (const page of index) {
    pages.push(page);
    for (const [anchor, path, text] of page.sections)
      sections.push({ address: page.address + (anchor && `#${anchor}`), path, text, page: pages.length - 1 });
  }
  sectionRanking = new Ranking(
    sections.map(({ path, text }) => [
      unnumbered(path.at(-1)),
      path.slice(0, -1).map(unnumbered).join(" "),
      withoutInterpreter(text),
    ]),
  );
  pageRanking = new Ranking(
    pages.map(({ sections: [first, ...others] }) => [
      first[1][0],
      others.map(([, path]) => unnumbered(path.at(-1))).join(" "),
      withoutInterpreter([first, ...others].map(([, , text]) => text).join(" ")),
    ]),
  );
}

function weightOf(word) {
  return small.has(word) || /^\d+$/.test(word) ? SMALL : 1;
}

function pairOf(first, second) {
  return { term: `${first} ${second}`, weight: SIDE_BY_SIDE * Math.sqrt(weightOf(first) * weightOf(second)) };
}

/* A word or a phrase as terms: its words, and each two that stand side by side. */
function formOf(words, share = 1) {
  const pairs = words.slice(1).map((word, index) => pairOf(words[index], word));
  const terms = [...words.map((word) => ({ term: word, weight: weightOf(word) })), ...pairs];
  return terms.map(({ term, weight }) => ({ term, weight: share * weight }));
}

/* The stems of a query. A word that no section has may be two that one has: "huggingface". */
function stemsOf(query) {
  const known = (word) => sectionRanking.frequency.has(word);
  return stemsIn(query).flatMap((word) => {
    if (known(word)) return [word];
    for (let cut = 3; cut < word.length - 2; cut++) {
      const parts = [stem(word.slice(0, cut)), stem(word.slice(cut))];
      if (parts.every(known)) return parts;
    }
    return [word];
  });
}

/* The parts of a query: each is a word, a phrase that has synonyms, or two words side by side, as a list of forms. */
function partsOf(words) {
  const parts = [];
  let position = 0;
  while (position < words.length) {
    const begins = (phrase) => phrase.every((word, index) => words[position + index] === word);
    const group = groups.find((phrases) => phrases.some(begins));
    const phrase = group ? group.find(begins) : [words[position]];
    if (position > 0) parts.push([[pairOf(words[position - 1], words[position])]]);
    const others = (group || []).filter((other) => other !== phrase);
    parts.push([formOf(phrase), ...others.map((other) => formOf(other, OTHER_WORD))]);
    position += phrase.length;
  }
  return parts;
}

/* The stems that results mark: those of the query and of its synonyms, without small words if there are others. */
function shownStems(query) {
  const terms = partsOf(stemsOf(query)).flat(2).map(({ term }) => term);
  const words = terms.filter((term) => !term.includes(" "));
  const rare = words.filter((word) => weightOf(word) === 1);
  return new Set(rare.length ? rare : words);
}

/* Whether a section is that of the reference on the name that the query spells: `SelfAttention`, `Run.translate`. */
function isNamed(section, query) {
  const name = query.trim().replace(/\(\)$/, "");
  return /^[\w.]*[A-Z_.][\w.]*$/.test(name) && `.${section.address.split("#")[1]}`.endsWith(`.${name}`);
}

/* The factor of a section's score. A question with its answer comes first for those who type a sentence. */
function factorOf(section, query, isSentence) {
  if (isNamed(section, query)) return 100;
  return pages[section.page].weight * (isSentence && section.path.at(-2) === "Questions" ? ASKED : 1);
}

/* The sections that answer a query, best first. */
function rank(query) {
  const words = stemsOf(query);
  const parts = partsOf(words);
  if (![...shownStems(query)].some((word) => sectionRanking.frequency.has(word))) return [];
  const isSentence = query.includes("?") || (words.length > LONGEST_NAME && words.some((word) => small.has(word)));
  const ofPages = pages.map((_, index) => pageRanking.score(index, parts));
  const scored = sections
    .map((section, index) => ({ section, score: sectionRanking.score(index, parts) }))
    .filter(({ score }) => score > 0)
    .map(({ section, score }) => ({
      section,
      score: factorOf(section, query, isSentence) * (score + PAGE_SHARE * ofPages[section.page]),
    }))
    .sort((a, b) => b.score - a.score);
  const taken = new Map();
  return scored
    .filter(({ section }) => {
      taken.set(section.page, (taken.get(section.page) || 0) + 1);
      return taken.get(section.page) <= MOST_OF_A_PAGE;
    })
    .slice(0, MOST)
    .map(({ section }) => section);
}
