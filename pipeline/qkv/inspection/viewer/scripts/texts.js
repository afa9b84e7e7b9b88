"use strict";
// The texts of a sentence, above its pictures, with marks: search hits, words that differ from the reference, dropped and
// repeated words.

// The places of the words of each list that are not in their longest common subsequence: [Set, Set].
function differences(one, other) {
  const lengths = Array.from({ length: one.length + 1 }, () => new Uint16Array(other.length + 1));
  for (let i = one.length - 1; i >= 0; i--) {
    for (let j = other.length - 1; j >= 0; j--) {
      lengths[i][j] = one[i] === other[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const left = new Set(one.keys()), right = new Set(other.keys());
  for (let i = 0, j = 0; i < one.length && j < other.length; ) {
    if (one[i] === other[j]) {
      left.delete(i++);
      right.delete(j++);
    } else if (lengths[i + 1][j] >= lengths[i][j + 1]) i++;
    else j++;
  }
  return [left, right];
}

const LONGEST_REPETITION = 4; // words

// The places of words that say at once again what was just said, one to four words of it: "the the", "of a of a".
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

// The places of the words in a text, [{start, end}]; null where tokens count as words, whose places are not known.
function wordRanges(text, unit) {
  if (unit === "subwords") return null;
  const words = unit === "characters" ? /[^ ]/gu : /[^ ]+/g;
  return [...text.matchAll(words)].map((found) => ({ start: found.index, end: found.index + found[0].length, word: found[0] }));
}

// The places of a search's hits in a text.
function hitRanges(text, query) {
  const wanted = query.trim();
  if (wanted === "") return [];
  const pattern = new RegExp(wanted.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&"), "gi");
  return [...text.matchAll(pattern)].map((found) => ({ start: found.index, end: found.index + found[0].length, kind: "hit" }));
}

const MEANINGS = {
  differs: "not in the other text",
  dropped: "got less than a fifth of its fair share of attention",
  repeated: "said again at once",
};

// Fills an element with a text whose ranges, [{start, end, kind}], are marked; they may overlap.
function markText(element, text, ranges) {
  const ends = [...new Set([0, text.length, ...ranges.flatMap(({ start, end }) => [start, end])])].sort((one, other) => one - other);
  const pieces = ends.slice(1).map((end, i) => {
    const start = ends[i], kinds = new Set(ranges.filter((range) => range.start <= start && end <= range.end).map(({ kind }) => kind));
    const piece = text.slice(start, end), hit = kinds.delete("hit");
    if (!hit && !kinds.size) return piece;
    const title = [...kinds].map((kind) => MEANINGS[kind]).join("; ");
    return htmlElement(hit ? "mark" : "span", { class: [...kinds].join(" ") || null, title: title || null }, piece);
  });
  element.replaceChildren(...(text === "" ? [] : pieces));
  return element;
}

// The marks in the target's texts: words of translation and reference that differ, words said again.
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

// The words of the source that got hardly any attention in one of the runs.
function droppedWords(own) {
  return own.flatMap(({ run, sentence }) => {
    const ranges = wordRanges(sentence.sourceText, run.units.source) ?? [];
    return (sentence.underAttendedWords ?? []).map((word) => ranges[word]).filter(Boolean).map((range) => ({ ...range, kind: "dropped" }));
  });
}

// `own`: [{run, sentence}] of the runs that are shown and have the sentence; `several` names the runs.
function drawTexts(sentence, own, several, query) {
  const texts = [], kinds = new Set();
  const add = (name, text, ranges = [], kind = null) => {
    for (const range of ranges) kinds.add(range.kind);
    const marked = markText(htmlElement("span", { dir: "auto", class: kind }), text, [...ranges, ...hitRanges(text, query)]);
    texts.push(htmlElement("span", { class: "name" }, name), marked);
  };
  const marks = own.map((one) => targetMarks(one.sentence, one.run.units.target));
  add("source", sentence.sourceText, droppedWords(own));
  if (sentence.reference !== null) add("reference", sentence.reference, own.length === 1 ? marks[0].reference : []);
  own.forEach(({ run, sentence }, i) => {
    const named = (what) => (several ? `${what}, ${run.name}` : what);
    add(named(sentence.mode === "forced" ? "forced" : "translation"), sentence.hypothesis, marks[i].translation);
    if (sentence.plain !== null && sentence.plain !== sentence.hypothesis) add(named("plain text"), sentence.plain);
    if (sentence.truncated) add("", "cut short at the longest length allowed", [], "warning");
    if (sentence.underAttended && (several || run.units.source === "subwords")) add("hardly attended to", sentence.underAttended, [], "warning");
  });
  return [...texts, ...drawKey(kinds)];
}

// The key to the marks in the texts, where there are any.
function drawKey(kinds) {
  const labels = { differs: "differs from the other text", dropped: "hardly attended to", repeated: "repeated" };
  const shown = Object.keys(labels).filter((kind) => kinds.has(kind));
  if (!shown.length) return [];
  const key = htmlElement("span", { class: "key" });
  for (const kind of shown) key.append(htmlElement("span", { class: kind }, labels[kind]));
  return [htmlElement("span", { class: "name" }), key];
}
