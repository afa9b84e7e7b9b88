"use strict";
// Marks within a text: search hits, words that differ from the reference, dropped and repeated words.

// Where the words of a text are, [{start, end}]; null where tokens count as words, whose places are not known.
function wordRanges(text, unit) {
  if (unit === "subwords") return null;
  const words = unit === "characters" ? /[^ ]/gu : /[^ ]+/g;
  return [...text.matchAll(words)].map((found) => ({ start: found.index, end: found.index + found[0].length, word: found[0] }));
}

// Where a text contains what is searched for.
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
