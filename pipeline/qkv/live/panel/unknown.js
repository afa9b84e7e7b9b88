"use strict";
// The words that the model does not know, and their marks in the field in which the user types.
//
// A word is unknown if it has a character outside the vocabulary, or is split into several tokens although no word of
// the training text is split so. If the training text is not at hand, a word of three letters or more is unknown if most
// of its letters are tokens of one letter each: a tokenizer joins letters that it has often seen together.

const FEWEST_LETTERS = 3;

// Returns [{word, kind}], the unknown words of a source: "character" with a character outside the vocabulary, "new"
// for a word that the training text does not have, "spelled" for one that is spelled letter by letter. `splitWords`: the
// words of the training text that are several tokens, null if they are not known.
function unknownWords({ sourceText, source, sourceWords }, unit, splitWords) {
  if (unit !== "spaces") return source.filter((token) => token === "<unk>").length ? [{ word: null, kind: "character" }] : [];
  const seen = splitWords && new Set(splitWords), words = sourceText.split(" ").filter(Boolean);
  return words.flatMap((word, place) => {
    const tokens = source.filter((_, index) => sourceWords[index] === place);
    if (tokens.some((token) => token === "<unk>" || /^<0x[0-9A-F]{2}>$/.test(token))) return [{ word, kind: "character" }];
    if (!/\p{L}/u.test(word) || tokens.length < 2 || seen?.has(word)) return [];
    if (seen) return [{ word, kind: "new" }];
    const single = tokens.filter((token) => [...token.replaceAll("\u2581", "")].length === 1).length;
    return [...word].length >= FEWEST_LETTERS && 2 * single >= [...word].length ? [{ word, kind: "spelled" }] : [];
  });
}

// Returns [{start, end, kind, word}], where the unknown words stand in the typed text, whatever their capitals.
function unknownRanges(typed, unknown) {
  const lower = typed.toLowerCase(), ranges = [];
  for (const { word, kind } of unknown) {
    if (word === null) continue;
    for (let start = lower.indexOf(word.toLowerCase()); start >= 0; start = lower.indexOf(word.toLowerCase(), start + 1)) {
      const end = start + word.length, isWhole = !/[\p{L}\p{N}]$/u.test(typed.slice(0, start)) && !/^[\p{L}\p{N}]/u.test(typed.slice(end));
      if (isWhole && !ranges.some((range) => range.start < end && start < range.end)) ranges.push({ start, end, kind, word: typed.slice(start, end) });
    }
  }
  return ranges.sort((first, second) => first.start - second.start);
}

// Marks ranges of a text field, in a layer above it with the same text. A click on a mark selects its word in the field.
function markField(field, layer, ranges) {
  const pieces = [];
  let end = 0;
  for (const range of ranges) {
    const mark = htmlElement("span", { class: "unknown", title: say(`live.unknown.${range.kind}`, { word: range.word }) }, range.word);
    mark.addEventListener("click", () => {
      field.focus();
      field.setSelectionRange(range.start, range.end);
    });
    pieces.push(field.value.slice(end, range.start), mark);
    end = range.end;
  }
  layer.replaceChildren(...(ranges.length ? [...pieces, field.value.slice(end)] : []));
  layer.scrollTop = field.scrollTop;
}
