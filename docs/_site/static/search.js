"use strict";
/* Ranks the sections of the site by BM25F (Robertson and Zaragoza 2009): words of a heading count more than words of
   the text, rare words more than frequent ones, and long sections do not win by their length. */

const FIELDS = [
  { weight: 5, b: 0.5 }, // the heading
  { weight: 2, b: 0.5 }, // the headings above it, of which the first is the title of the page
  { weight: 1, b: 0.75 }, // the text
];
const SATURATION = 1.2;
const PAGE_SHARE = 0.5; // of the score of the whole page, added to the scores of its sections
const MOST_OF_A_PAGE = 3;
const MOST = 30;

const stemmer = new EnglishStemmer();
const stems = new Map();
const sections = [];
const pages = [];

function stem(word) {
  if (!stems.has(word)) stems.set(word, stemmer.stemWord(word.replace(/iz(e|es|ed|er|ing|ation)$/, "is$1")));
  return stems.get(word);
}

/* Words without accents in small letters; a name such as `length_penalty` is its words. */
function wordsOf(text) {
  const plain = text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
  return (plain.match(/[\p{L}\p{N}]+/gu) || []).filter((word) => !stopwords.has(word));
}

function countsOf(text) {
  const counts = new Map();
  for (const word of wordsOf(text)) counts.set(stem(word), (counts.get(stem(word)) || 0) + 1);
  return counts;
}

function sizeOf(counts) {
  let size = 0;
  for (const count of counts.values()) size += count;
  return size;
}

class Ranking {
  /* The scores of documents, each a list of texts, one for each field. */
  constructor(documents) {
    this.fields = documents.map((texts) => texts.map(countsOf));
    this.sizes = this.fields.map((fields) => fields.map(sizeOf));
    this.means = FIELDS.map((_, f) => this.sizes.reduce((sum, sizes) => sum + sizes[f], 0) / documents.length || 1);
    this.frequency = new Map();
    for (const fields of this.fields)
      for (const word of new Set(fields.flatMap((counts) => [...counts.keys()])))
        this.frequency.set(word, (this.frequency.get(word) || 0) + 1);
  }

  rarity(word) {
    const frequency = this.frequency.get(word) || 0;
    return Math.log(1 + (this.fields.length - frequency + 0.5) / (frequency + 0.5));
  }

  score(index, words) {
    let score = 0;
    for (const word of words) {
      let count = 0;
      FIELDS.forEach(({ weight, b }, f) => {
        const found = this.fields[index][f].get(word) || 0;
        count += (weight * found) / (1 - b + (b * this.sizes[index][f]) / this.means[f]);
      });
      score += (this.rarity(word) * count) / (SATURATION + count);
    }
    return score;
  }
}

let sectionRanking, pageRanking;

/* Called by search_index.js with the pages, whose sections are `[anchor, headings, text]`. */
function searchIn(index) {
  for (const page of index) {
    pages.push(page);
    for (const [anchor, path, text] of page.sections)
      sections.push({ address: page.address + (anchor && `#${anchor}`), path, text, page: pages.length - 1 });
  }
  sectionRanking = new Ranking(sections.map(({ path, text }) => [path.at(-1), path.slice(0, -1).join(" "), text]));
  pageRanking = new Ranking(
    pages.map(({ sections: [first, ...others] }) => [
      first[1][0],
      others.map(([, path]) => path.at(-1)).join(" "),
      [first, ...others].map(([, , text]) => text).join(" "),
    ]),
  );
}

/* The stems of a query. A word that no section has may be two that one has: "huggingface". */
function stemsOf(query) {
  return wordsOf(query).flatMap((word) => {
    if (sectionRanking.frequency.has(stem(word))) return [stem(word)];
    for (let cut = 3; cut < word.length - 2; cut++) {
      const parts = [stem(word.slice(0, cut)), stem(word.slice(cut))];
      if (parts.every((part) => sectionRanking.frequency.has(part))) return parts;
    }
    return [stem(word)];
  });
}

/* Whether a section is that of the reference on the name that the query spells: `SelfAttention`, `Run.translate`. */
function isNamed(section, query) {
  const name = query.trim().replace(/\(\)$/, "");
  return /^[\w.]*[A-Z_.][\w.]*$/.test(name) && `.${section.address.split("#")[1]}`.endsWith(`.${name}`);
}

/* The sections that answer a query, best first. */
function rank(query) {
  const words = [...new Set(stemsOf(query))];
  const ofPages = pages.map((_, index) => pageRanking.score(index, words));
  const scored = sections
    .map((section, index) => ({ section, score: sectionRanking.score(index, words) }))
    .filter(({ score }) => score > 0)
    .map(({ section, score }) => ({
      section,
      score: (isNamed(section, query) ? 100 : pages[section.page].weight) * (score + PAGE_SHARE * ofPages[section.page]),
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
