"use strict";
// The texts of a sentence above its pictures, with marks: search hits, words that differ from the reference, words
// hardly attended to, and repeated words.

// Returns [Set, Set], the indices of the words of each list that are not in their longest common subsequence.
function differences(first, second) {
  const lengths = Array.from({ length: first.length + 1 }, () => new Uint16Array(second.length + 1));
  for (let i = first.length - 1; i >= 0; i--) {
    for (let j = second.length - 1; j >= 0; j--) {
      lengths[i][j] = first[i] === second[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const left = new Set(first.keys()), right = new Set(second.keys());
  for (let i = 0, j = 0; i < first.length && j < second.length; ) {
    if (first[i] === second[j]) {
      left.delete(i++);
      right.delete(j++);
    } else if (lengths[i + 1][j] >= lengths[i][j + 1]) i++;
    else j++;
  }
  return [left, right];
}

const LONGEST_REPETITION = 4; // words

// Returns the indices of words that repeat the one to four words before them, as in "the the" and "of a of a".
function repetitions(words) {
  const repeated = new Set();
  for (let length = 1; length <= LONGEST_REPETITION; length++) {
    for (let start = length; start + length <= words.length; start++) {
      const places = Array.from({ length }, (_, i) => start + i);
      if (places.every((place) => words[place] === words[place - length])) places.forEach((place) => repeated.add(place));
    }
  }
  return repeated;
}

// Returns [{start, end, word}], the words of a text; null if tokens count as words, because their positions are
// unknown.
function wordRanges(text, unit) {
  if (unit === "subwords") return null;
  const words = unit === "characters" ? /[^ ]/gu : /[^ ]+/g;
  return [...text.matchAll(words)].map((match) => ({ start: match.index, end: match.index + match[0].length, word: match[0] }));
}

// Returns [{start, end, kind}], the hits of a query in a text.
function hitRanges(text, query) {
  const wanted = query.trim();
  if (wanted === "") return [];
  const pattern = new RegExp(wanted.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&"), "gi");
  return [...text.matchAll(pattern)].map((match) => ({ start: match.index, end: match.index + match[0].length, kind: "hit" }));
}

// Fills an element with a text whose ranges, [{start, end, kind}], are marked; they may overlap.
function markText(element, text, ranges) {
  const ends = [...new Set([0, text.length, ...ranges.flatMap(({ start, end }) => [start, end])])].sort((first, second) => first - second);
  const pieces = ends.slice(1).map((end, i) => {
    const start = ends[i], kinds = new Set(ranges.filter((range) => range.start <= start && end <= range.end).map(({ kind }) => kind));
    const piece = text.slice(start, end), hit = kinds.delete("hit");
    if (!hit && !kinds.size) return piece;
    const title = [...kinds].map((kind) => say(`viewer.mark.${kind}.title`)).join("; ");
    return htmlElement(hit ? "mark" : "span", { class: [...kinds].join(" ") || null, title: title || null }, piece);
  });
  element.replaceChildren(...(text === "" ? [] : pieces));
  return element;
}

// Returns {translation, reference}, the marked ranges: words that differ between the two texts, and repeated words.
function targetMarks(sentence, unit) {
  const translation = wordRanges(sentence.hypothesis, unit), reference = wordRanges(sentence.reference ?? "", unit);
  if (!translation) return { translation: [], reference: [] };
  const words = (ranges) => ranges.map(({ word }) => word);
  const pick = (ranges, places, kind) => [...places].map((place) => ({ ...ranges[place], kind }));
  const again = pick(translation, repetitions(words(translation)), "repeated");
  if (sentence.reference === null) return { translation: again, reference: [] };
  const [added, missing] = differences(words(translation), words(reference));
  return { translation: [...pick(translation, added, "differs"), ...again], reference: pick(reference, missing, "differs") };
}

// Returns the ranges of the source words that were hardly attended to in one of the runs.
function droppedWords(versions) {
  return versions.flatMap(({ run, sentence }) => {
    const ranges = wordRanges(sentence.sourceText, run.units.source) ?? [];
    return (sentence.underAttendedWords ?? []).map((word) => ranges[word]).filter(Boolean).map((range) => ({ ...range, kind: "dropped" }));
  });
}

// Returns the texts of a sentence. `versions`: [{run, sentence}], the sentence in each shown run. `several`: whether
// the names of the runs are shown.
function drawTexts(sentence, versions, several, query) {
  const texts = [], kinds = new Set();
  const add = (name, text, ranges = [], kind = null) => {
    for (const range of ranges) kinds.add(range.kind);
    const marked = markText(htmlElement("span", { dir: "auto", class: kind }), text, [...ranges, ...hitRanges(text, query)]);
    texts.push(htmlElement("span", { class: "name" }, name), marked);
  };
  const marks = versions.map((version) => targetMarks(version.sentence, version.run.units.target));
  add(say("viewer.text.source"), sentence.sourceText, droppedWords(versions));
  if (sentence.reference !== null) add(say("viewer.text.reference"), sentence.reference, versions.length === 1 ? marks[0].reference : []);
  versions.forEach(({ run, sentence }, i) => {
    const named = (text) => (several ? say("viewer.text.of", { text, run: run.name }) : text);
    add(named(say(sentence.mode === "forced" ? "viewer.text.forced" : "viewer.text.translation")), sentence.hypothesis, marks[i].translation);
    if (sentence.plain !== null && sentence.plain !== sentence.hypothesis) add(named(say("viewer.text.plain")), sentence.plain);
    if (sentence.truncated) add("", say("viewer.text.truncated"), [], "warning");
    if (sentence.underAttended && (several || run.units.source === "subwords")) add(say("viewer.text.dropped"), sentence.underAttended, [], "warning");
  });
  return [...texts, ...drawKey(kinds)];
}

// Returns the legend of the marks in the texts; nothing without marks.
function drawKey(kinds) {
  const shown = ["differs", "dropped", "repeated"].filter((kind) => kinds.has(kind));
  if (!shown.length) return [];
  const key = htmlElement("span", { class: "key" });
  for (const kind of shown) key.append(htmlElement("span", { class: kind }, say(`viewer.mark.${kind}`)));
  return [htmlElement("span", { class: "name" }), key];
}
