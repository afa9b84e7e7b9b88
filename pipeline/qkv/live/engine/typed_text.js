"use strict";
// Makes typed text look like the training text: see the Python package's text/lines/: typed_line.py and
// moses.py, which this follows rule by rule.

const WHITE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"; // Python's spaces
const WORD = "[\\p{L}\\p{N}_]"; // Python's \w

const every = (pattern) => new RegExp(pattern, "gu");
const strip = (text) => text.replace(every(`^[${WHITE}]+|[${WHITE}]+$`), "");

// Returns the function that normalises a line. `rules`: the result of `pack_normalizer` in model_page.py, null for
// none. `unread`: the invisible characters that the model does not read, which are removed or become spaces; see
// `pack_tokenizer`.
function typedText(rules, unread) {
  const [leftOut, spaces] = [unread.left_out, unread.spaces].map((letters) => every(`[${letters}]`));
  const read = (line) => { // see text/lines/line.py and `Tokenizer.as_read`
    if (line.includes("\0")) throw new Error("the text has a NUL character (U+0000); remove it");
    return line.replaceAll("\n", " ").replace(/\r$/, "").replace(leftOut, "").replace(spaces, " ").normalize("NFC");
  };
  if (!rules) return read;
  const marked = new Set(rules.marked), capitalised = new Set(rules.capitalised);
  const divide = rules.moses ? mosesDivider(rules.moses) : null;
  const isWhole = (word) => /^[\p{L}\p{N}]+$/u.test(word) || marked.has(word) || divide(word) === word;
  const isKept = (word) => marked.has(word) && /[\p{L}\p{N}]/u.test(word);
  const divideAround = (line) => {
    const parts = [];
    for (const word of line.split(" ")) {
      const kept = isKept(word);
      if (parts.at(-1)?.kept === kept) parts.at(-1).text += ` ${word}`;
      else parts.push({ kept, text: word });
    }
    return parts.map(({ kept, text }) => (kept ? text : divide(text))).filter(Boolean).join(" ");
  };
  return (typed) => {
    let line = read(typed);
    if (rules.lowercase && rules.capitals === "none") line = line.toLowerCase();
    if (divide && !line.split(" ").filter(Boolean).every(isWhole)) line = divideAround(line);
    if (rules.lowercase && rules.capitals === "names") {
      line = line.replace(new RegExp(`${WORD}+`, "u"), (word) => (capitalised.has(word) ? word : word.toLowerCase()));
    }
    return line;
  };
}

// Returns a description of the invisible characters of a text that the model does not read, null if there are none; see
// `describe_unread` in text/lines/typed_line.py.
function describeUnread(text, unread) {
  const descriptions = [["live.unread.left_out", unread.left_out], ["live.unread.space", unread.spaces]].map(([key, letters]) => {
    const counts = new Map();
    for (const character of text.replaceAll("\n", " ").match(every(`[${letters}]`)) ?? []) {
      counts.set(character.codePointAt(0), (counts.get(character.codePointAt(0)) ?? 0) + 1);
    }
    const codes = [...counts].sort(([first], [second]) => first - second);
    const named = codes.map(([code, count]) => `U+${code.toString(16).toUpperCase().padStart(4, "0")} (${count})`);
    return named.length ? say(key, { characters: named.join(", ") }) : "";
  }).filter(Boolean);
  return descriptions.length ? say("live.unread", { characters: descriptions.join("; ") }) : null;
}

// Returns a function from a line to its words, separated by spaces, by Moses' normaliser of punctuation and tokeniser.
// The argument holds the tables of the library, see `moses.rules`.
function mosesDivider({ substitutions, alnum, alpha, number, lower, prefixes, numeric, apostrophes, escape }) {
  const known = new Set(prefixes), beforeNumbers = new Set(numeric);
  const hasLetter = new RegExp(`[${alpha}]`, "u"), isLower = new RegExp(`^[${lower}]`, "u");
  const steps = substitutions.map(([pattern, text]) => [every(pattern), text]);
  const apostropheSteps = {
    en: [
      [`([^${alpha}])'([^${alpha}])`, "$1 ' $2"], [`([^${alpha}${number}])'([${alpha}])`, "$1 ' $2"],
      [`([${alpha}])'([^${alpha}])`, "$1 ' $2"], [`([${alpha}])'([${alpha}])`, "$1 '$2"], [`([${number}])'(s)`, "$1 '$2"],
    ],
    fr: [
      [`([^${alpha}])'([^${alpha}])`, "$1 ' $2"], [`([^${alpha}])'([${alpha}])`, "$1 ' $2"],
      [`([${alpha}])'([^${alpha}])`, "$1 ' $2"], [`([${alpha}])'([${alpha}])`, "$1' $2"],
    ],
    other: [["'", " ' "]],
  }[apostrophes];
  const divisions = [
    [`([^${alnum}${WHITE}.'\`,\\-])`, " $1 "],
    ["\\.{2,}", (run, at, whole) => ` ${"DOT".repeat(run.length)}MULTI${at + run.length < whole.length ? " " : ""}`],
    [`([^${number}]),`, "$1 , "], [`,([^${number}])`, " , $1"], [`([${number}]),$`, "$1 , "],
    ...apostropheSteps,
  ].map(([pattern, text]) => [every(pattern), text]);
  const staysWhole = (prefix, next) => (prefix.includes(".") && hasLetter.test(prefix))
    || (known.has(prefix) && !beforeNumbers.has(prefix)) || (next && isLower.test(next))
    || (beforeNumbers.has(prefix) && next && /^[0-9]/.test(next));
  const apply = (text, rules) => rules.reduce((changed, [pattern, replacement]) => changed.replace(pattern, replacement), text);
  return (line) => {
    let text = strip(apply(line, steps)).replace(every(`[${WHITE}]+`), " ").replace(/[\0-\x1f]/g, "");
    text = apply(strip(text), divisions);
    const tokens = strip(text).split(every(`[${WHITE}]+`)).filter(Boolean);
    text = tokens.map((token, i) => {
      const prefix = /^[^]+\.$/u.test(token) ? token.slice(0, -1) : null;
      return prefix === null || staysWhole(prefix, tokens[i + 1]) ? token : `${prefix} .`;
    }).join(" ").replace(/\.' ?$/, " . ' ");
    text = text.replace(/(?:DOT)+MULTI/g, (mark) => ".".repeat((mark.length - 5) / 3));
    return escape.reduce((changed, [character, name]) => changed.replaceAll(character, name), text);
  };
}
